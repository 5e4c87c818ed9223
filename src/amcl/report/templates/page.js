function map(figure) {
  const frame = figure.querySelector(".frame");
  const svg = frame.querySelector("svg");
  const group = svg.querySelector(".points");
  const ring = svg.querySelector(".ring");
  const tip = frame.querySelector(".tip");
  const thumb = tip.querySelector(".thumb");
  const spoken = figure.querySelector(".spoken");
  const names = [...figure.querySelectorAll(".names li")].map((one) => one.textContent);
  const columns = Number(figure.dataset.columns);
  const points = [...group.children].map((use, i) => ({
    i, use, x: Number(use.getAttribute("x")), y: Number(use.getAttribute("y")), kind: Number(use.dataset.k),
  }));
  const rows = Math.ceil(points.length / columns);
  const width = 96;
  const height = width / Number(figure.dataset.aspect);
  thumb.style.width = `${width}px`;
  thumb.style.height = `${height}px`;
  thumb.style.backgroundSize = `${columns * width}px ${rows * height}px`;
  let current = -1;

  const highlight = (kind) => {
    group.classList.toggle("dim", kind >= 0 && names.length > 1);
    for (const point of points) point.use.classList.toggle("on", point.kind === kind);
  };
  const show = (point) => {
    current = point.i;
    const scale = svg.clientWidth / svg.viewBox.baseVal.width;
    thumb.style.backgroundPosition =
      `${-(point.i % columns) * width}px ${-Math.floor(point.i / columns) * height}px`;
    tip.querySelector("span").textContent = names[point.kind];
    tip.hidden = false;
    const room = frame.clientWidth - tip.offsetWidth;
    const above = point.y * scale - tip.offsetHeight - 14;
    tip.style.left = `${Math.max(0, Math.min(room, point.x * scale - tip.offsetWidth / 2))}px`;
    tip.style.top = `${above >= 0 ? above : point.y * scale + 14}px`;
    ring.setAttribute("cx", point.x);
    ring.setAttribute("cy", point.y);
    ring.removeAttribute("hidden");
    highlight(point.kind);
  };
  const hide = () => {
    tip.hidden = true;
    ring.setAttribute("hidden", "");
    highlight(-1);
  };
  const nearest = (x, y, within) => {
    let found = null;
    let least = within * within;
    for (const point of points) {
      const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
      if (distance <= least) [found, least] = [point, distance];
    }
    return found;
  };
  const pointed = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const found = nearest((event.clientX - box.left) * scale, (event.clientY - box.top) * scale, 18 * scale);
    if (found) show(found);
    else hide();
  };
  const speak = () => {
    spoken.textContent = `image ${current + 1} of ${points.length} ${names[points[current].kind]}`;
  };
  const step = (key) => {
    const axis = key === "ArrowLeft" || key === "ArrowRight" ? "x" : "y";
    const order = [...points].sort((a, b) => a[axis] - b[axis] || a.i - b.i);
    const by = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
    const at = order.findIndex((point) => point.i === current);
    show(order[Math.max(0, Math.min(order.length - 1, at + by))]);
    speak();
  };
  frame.addEventListener("pointermove", pointed);
  frame.addEventListener("pointerdown", pointed);
  frame.addEventListener("pointerleave", hide);
  frame.addEventListener("focus", () => {
    if (!frame.matches(":focus-visible")) return;
    const box = svg.viewBox.baseVal;
    show(points[current] ?? nearest(box.width / 2, box.height / 2, Infinity));
    speak();
  });
  frame.addEventListener("blur", hide);
  frame.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    if (!event.key.startsWith("Arrow") || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    step(event.key);
  });
  for (const button of figure.querySelectorAll(".legend button")) {
    const kind = Number(button.dataset.kind);
    button.addEventListener("pointerenter", () => highlight(kind));
    button.addEventListener("focus", () => highlight(kind));
    button.addEventListener("pointerleave", () => highlight(-1));
    button.addEventListener("blur", () => highlight(-1));
  }
}

document.querySelectorAll("figure.map").forEach(map);
