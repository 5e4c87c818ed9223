"use strict";

function themes() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Change to light colors" : "Change to dark colors");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  system.addEventListener("change", name);
  name();
  button.hidden = false;
}

function foldedOnPaper() {
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
  });
}

// What is wider than the screen can be reached with the keyboard.
function scrollers() {
  for (const one of document.querySelectorAll(".scroll")) {
    if (one.scrollWidth > one.clientWidth + 1) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  }
}

themes();
foldedOnPaper();
scrollers();
window.addEventListener("resize", scrollers);
