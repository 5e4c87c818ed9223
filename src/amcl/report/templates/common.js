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

// What a number means is shown beside it while it is pointed at, touched or focused.
function explanations() {
  const tip = document.getElementById("explanation");
  const hide = () => {
    tip.hidden = true;
    for (const one of document.querySelectorAll("[aria-describedby='explanation']")) {
      one.removeAttribute("aria-describedby");
    }
  };
  const show = (one) => {
    hide();
    tip.textContent = one.dataset.explanation;
    tip.hidden = false;
    one.setAttribute("aria-describedby", "explanation");
    const box = one.getBoundingClientRect();
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const above = box.top - tip.offsetHeight - 6;
    tip.style.left = `${Math.max(8, Math.min(room, box.left))}px`;
    tip.style.top = `${above >= 8 ? above : box.bottom + 6}px`;
  };
  for (const one of document.querySelectorAll("[data-explanation]")) {
    for (const event of ["pointerenter", "focus", "click"]) one.addEventListener(event, () => show(one));
    for (const event of ["pointerleave", "blur"]) one.addEventListener(event, hide);
  }
  window.addEventListener("scroll", hide, {capture: true, passive: true});
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
}

themes();
explanations();
foldedOnPaper();
scrollers();
window.addEventListener("resize", scrollers);
