const data = JSON.parse(document.getElementById("data").textContent);
const columns = data.columns;
const count = columns.path.length;
const picked = new Set();
const numbers = new Intl.NumberFormat("en-US");

function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function drawn(tag, attributes, text = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return node;
}

function pathOf(i) {
  return i < count ? columns.path[i] : data.others[i - count];
}

function picture(i, alt) {
  if (!data.pictures[i]) return element("span", { class: "missing" }, "no picture");
  const image = element("img", { src: data.pictures[i], alt, decoding: "async" });
  image.addEventListener("load", () => {
    image.classList.toggle("pixels", Math.max(image.naturalWidth, image.naturalHeight) <= 48);
  });
  return image;
}

function button(i) {
  if (i >= count) return element("span", { class: "pick" }, picture(i, pathOf(i)));
  const state = { type: "button", class: "pick", "data-i": i, "aria-pressed": picked.has(i) };
  return element("button", { ...state, "aria-label": `Select ${pathOf(i)}` }, picture(i, ""));
}

// The path of an image, or its end, linked to the file if it lies in a folder.
function named(i) {
  const path = pathOf(i);
  const name = path.length > 60 ? `…${path.slice(-58)}` : path;
  const isPlain = data.folder !== null && i < count && !path.includes("\\");
  const href = isPlain ? [data.folder, ...path.split("/").map(encodeURIComponent)].join("/") : null;
  const rest = { target: "_blank", rel: "noopener", title: `${path}: open the file` };
  // Lines break behind folders and words of a name, if they can.
  const parts = name.split(/(?<=[/_-])/).flatMap((part) => [part, element("wbr", {})]);
  return element("p", { class: "name", title: path }, ...(isPlain ? [element("a", { href, ...rest }, ...parts)] : parts));
}

function tile(i, marked) {
  const node = element("div", { class: "tile" }, button(i), named(i));
  if (marked && i < count) {
    const kept = columns.keep[i];
    node.firstChild.append(element("span", { class: `state ${kept ? "keep" : "drop"}` }, kept ? "keep" : "copy"));
  }
  return node;
}

function item([images, lines], marked) {
  const tiles = element("div", { class: "group" }, ...images.map((i) => tile(i, marked)));
  return element("li", {}, tiles, ...lines.map((line) => element("p", { class: "line" }, line)));
}

function pick(images, on) {
  for (const i of images) {
    if (i >= count) continue;
    if (on) picked.add(i);
    else picked.delete(i);
  }
  for (const node of document.querySelectorAll("button.pick")) {
    node.setAttribute("aria-pressed", picked.has(Number(node.dataset.i)));
  }
  document.getElementById("selection").hidden = picked.size === 0;
  document.getElementById("picked").textContent =
    `${numbers.format(picked.size)} ${picked.size === 1 ? "image" : "images"} selected`;
  document.dispatchEvent(new Event("picked"));
}

function download() {
  const paths = [...picked].map((i) => `${columns.path[i]}\n`).sort();
  const address = URL.createObjectURL(new Blob(paths, { type: "text/plain" }));
  element("a", { href: address, download: "selected_images.txt" }).click();
  window.setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function selections() {
  document.addEventListener("click", (event) => {
    const node = event.target.closest("button.pick");
    if (node) pick([Number(node.dataset.i)], node.getAttribute("aria-pressed") !== "true");
  });
  document.getElementById("download").addEventListener("click", download);
  document.getElementById("clear").addEventListener("click", () => pick([...picked], false));
}

function gallery(holder) {
  const items = data.galleries[holder.dataset.gallery];
  const marked = ["exact", "near"].includes(holder.dataset.gallery);
  const list = holder.querySelector(".tiles");
  const more = holder.querySelector(".more");
  const all = holder.querySelector(".pick-all");
  const step = marked ? 12 : 24;
  const show = () => {
    const first = list.children.length;
    list.append(...items.slice(first, first + step).map((each) => item(each, marked)));
    const left = items.length - list.children.length;
    if (left <= 0 && document.activeElement === more) list.children[first].querySelector("button").focus();
    more.hidden = left <= 0;
    more.textContent = left > step ? `Show ${step} more of ${left}` : `Show ${left} more`;
  };
  more.addEventListener("click", show);
  // Of copies, those to leave out; else all.
  const images = items.flatMap(([each]) => each.filter((i) => i < count && !(marked && columns.keep[i])));
  all.hidden = images.length === 0;
  all.textContent = marked ? `Select these copies (${images.length})` : `Select all shown here (${images.length})`;
  all.addEventListener("click", () => pick(images, true));
  show();
}

function histogram() {
  const svg = document.getElementById("histogram");
  const { edges, counts } = data.histogram;
  const used = counts.flatMap((each, i) => (each ? [i] : []));
  const first = Math.max(0, Math.min(...used, counts.length - 12) - 1);
  const last = Math.min(counts.length, Math.max(...used, 0) + 2);
  const [left, bottom, width, height] = [40, 180, 700, 150];
  const x = (i) => left + ((i - first) / (last - first)) * width;
  // Within a bin, by the logarithm of the distance from 1, as the bins are.
  const position = (cosine) => {
    const i = Math.max(first, edges.findLastIndex((edge) => edge <= cosine));
    const [low, high] = [1 - edges[i], Math.max(1 - edges[i + 1], 5e-7)];
    const share = (Math.log(low) - Math.log(Math.max(1 - cosine, 5e-7))) / (Math.log(low) - Math.log(high));
    return x(Math.min(i + Math.max(0, Math.min(1, share)), last));
  };
  const top = Math.log1p(Math.max(1, ...counts));
  const bars = counts.slice(first, last).map((each, k) => {
    const tall = (Math.log1p(each) / top) * height;
    const bar = drawn("rect", { class: "bar", x: x(first + k) + 0.5, y: bottom - tall, width: width / (last - first) - 1, height: tall });
    bar.append(drawn("title", {}, `${numbers.format(each)} between ${edges[first + k].toFixed(5)} and ${edges[first + k + 1].toFixed(5)}`));
    return bar;
  });
  svg.append(...bars, drawn("line", { class: "axis", x1: left, x2: left + width, y1: bottom, y2: bottom }));
  for (const cosine of [0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999, 0.99999]) {
    if (cosine < edges[first] || cosine > edges[last]) continue;
    svg.append(drawn("text", { x: position(cosine), y: bottom + 18, "text-anchor": "middle" }, String(cosine)));
  }
  svg.append(drawn("text", { x: left - 6, y: bottom - height + 4, "text-anchor": "end" }, numbers.format(Math.max(...counts))));
  svg.append(drawn("text", { x: left - 6, y: bottom, "text-anchor": "end" }, "0"));
  const marks = data.thresholds.map(({ cosine }) => {
    const line = drawn("line", { class: "mark", x1: position(cosine), x2: position(cosine), y1: 18, y2: bottom });
    const text = drawn("text", { x: position(cosine), y: 12, "text-anchor": "middle" }, cosine.toFixed(4));
    svg.append(line, text);
    return [line, text];
  });
  return (chosen) => {
    marks.forEach(([line, text], i) => {
      line.classList.toggle("chosen", i === chosen);
      text.classList.toggle("chosen", i === chosen);
      text.toggleAttribute("display", false);
      if (i !== chosen) text.setAttribute("display", "none");
    });
    bars.forEach((bar, k) => bar.classList.toggle("over", x(first + k + 0.5) > position(data.thresholds[chosen].cosine)));
    const { cosine, images } = data.thresholds[chosen];
    svg.setAttribute("aria-label", `Histogram of the cosine of each image with its nearest other one, heights by the logarithm: ${numbers.format(images)} have one of at least ${cosine.toFixed(4)}.`);
  };
}

function thresholds() {
  const mark = histogram();
  const choices = document.getElementById("choices");
  const fill = (id, pairs, none) => {
    const list = document.getElementById(id);
    const items = pairs.map(([i, j, cosine]) => item([[i, j], [`cosine ${cosine.toFixed(4)}`]], false));
    list.replaceChildren(...(items.length ? items : [element("li", { class: "line note-line" }, none)]));
  };
  const choose = (chosen) => {
    const { cosine, dropped, above, below } = data.thresholds[chosen];
    mark(chosen);
    const text = `At ${cosine.toFixed(4)}, ${numbers.format(dropped)} of ${numbers.format(data.readable)} images would be left out as exact or near copies.`;
    const isApplied = cosine === data.threshold;
    document.getElementById("effect").textContent = isApplied
      ? `${text.replace("would be", "are")} This is the threshold of keep.txt and drop.txt.` : text;
    fill("above", above, "No pair is as similar as that.");
    fill("below", below, chosen === 0 ? "Pairs below the lowest threshold are not listed." : "No pair lies between this threshold and the lowest one.");
    document.getElementById("apply").hidden = isApplied;
    document.getElementById("command").textContent = data.again + Number(cosine.toPrecision(7));
  };
  data.thresholds.forEach(({ cosine, dropped }, i) => {
    const input = element("input", { type: "radio", name: "threshold", value: i });
    input.checked = cosine === data.threshold;
    input.addEventListener("change", () => choose(i));
    choices.append(element("label", {}, input, element("b", {}, cosine.toFixed(4)), element("small", {}, `${numbers.format(dropped)} left out`)));
  });
  choose(data.thresholds.findIndex(({ cosine }) => cosine === data.threshold));
}

// Whether an image passes the filter; the map shows the others faintly.
let passes = () => true;

const TITLES = {
  path: "path", nearest_cosine: "nearest", duplicate_group: "group", outlier_rank: "odd rank", uncertainty_spread: "spread",
};
const FIRST = ["path", "keep", "width", "bytes", "nearest_cosine", "duplicate_group", "typicality", "outlier_rank", "cluster"];
const HIDDEN = ["nearest", "duplicate_kind", "outlier", "height"];
const PAGE = 50;

function cell(name, i) {
  const value = columns[name][i];
  if (value === null || value === "") return "";
  if (name === "width") return `${value} × ${columns.height[i]}`;
  if (name === "keep") return value ? (columns.outlier[i] ? "odd" : "keep") : "copy";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) && !/cosine|ambiguity|uncertainty|typicality/.test(name) ? numbers.format(value) : value.toFixed(4);
}

function browse() {
  const rest = Object.keys(columns).filter((name) => !FIRST.includes(name) && !HIDDEN.includes(name));
  const names = [...FIRST.filter((name) => name in columns), ...rest];
  const form = document.getElementById("filter");
  const head = document.querySelector("#table thead tr");
  const body = document.querySelector("#table tbody");
  const pages = document.getElementById("pages");
  const side = (i) => Math.min(columns.width[i], columns.height[i]);
  let [sorted, up, page, matches] = ["path", true, 0, []];

  const value = (i) => (sorted === "width" ? columns.width[i] * columns.height[i] : columns[sorted][i]);
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)];
    const isEmpty = (each) => each === null || each === "";
    if (isEmpty(x) || isEmpty(y)) return isEmpty(x) - isEmpty(y) || a - b;
    const by = typeof x === "string" ? x.localeCompare(y) : x - y;
    return (up ? by : -by) || a - b;
  };
  const show = () => {
    const last = Math.max(0, Math.ceil(matches.length / PAGE) - 1);
    page = Math.min(page, last);
    const rows = matches.slice(page * PAGE, (page + 1) * PAGE);
    body.replaceChildren(...rows.map((i) => element("tr", {}, element("td", {}, button(i)), ...names.map((name) => {
      const isText = typeof columns[name][i] === "string";
      return element("td", { class: isText ? "text" : null }, name === "path" ? columns.path[i] : cell(name, i));
    }))));
    document.getElementById("matches").textContent =
      `${numbers.format(matches.length)} of ${numbers.format(count)} images`;
    document.getElementById("pick-matches").disabled = matches.length === 0;
    pages.querySelector("span").textContent = `Page ${page + 1} of ${last + 1}`;
    pages.hidden = last === 0;
    pages.querySelector("[data-step='-1']").disabled = page === 0;
    pages.querySelector("[data-step='1']").disabled = page === last;
    for (const each of head.querySelectorAll("th[data-name]")) {
      if (each.dataset.name === sorted) each.setAttribute("aria-sort", up ? "ascending" : "descending");
      else each.removeAttribute("aria-sort");
      each.querySelector("i").textContent = each.dataset.name === sorted ? (up ? " ↑" : " ↓") : "";
    }
    scrollers();
  };
  const filter = () => {
    const wanted = new FormData(form);
    const text = wanted.get("path").toLowerCase();
    const [cluster, state] = [wanted.get("cluster"), wanted.get("state")];
    const least = Number(wanted.get("least")) || 0;
    const most = Number(wanted.get("most")) || Infinity;
    const states = {
      "": () => true, keep: (i) => columns.keep[i], drop: (i) => !columns.keep[i],
      odd: (i) => columns.outlier[i], picked: (i) => picked.has(i),
    };
    passes = (i) => columns.path[i].toLowerCase().includes(text) && (!cluster || columns.cluster[i] === Number(cluster))
      && states[state](i) && side(i) >= least && side(i) <= most;
    matches = [...Array(count).keys()].filter(passes).sort(order);
    page = 0;
    show();
    document.dispatchEvent(new Event("filtered"));
  };

  head.append(element("td", {}, ""));
  for (const name of names) {
    const title = TITLES[name] ?? (name === "width" ? "size" : name === "keep" ? "state" : name);
    const sort = element("button", { type: "button" }, title, element("i", { "aria-hidden": "true" }));
    sort.addEventListener("click", () => {
      [sorted, up] = [name, sorted === name ? !up : true];
      matches.sort(order);
      page = 0;
      show();
    });
    const isText = ["path", "reason", "keep"].includes(name);
    head.append(element("th", { scope: "col", "data-name": name, class: isText ? "left" : null }, sort));
  }
  const clusters = [...new Set(columns.cluster)].sort((a, b) => a - b);
  form.elements.cluster.append(...clusters.map((each) => element("option", { value: each }, String(each))));
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => window.setTimeout(filter));
  document.getElementById("pick-matches").addEventListener("click", () => pick(matches, true));
  pages.addEventListener("click", (event) => {
    if (!event.target.dataset.step) return;
    page += Number(event.target.dataset.step);
    show();
    document.getElementById("all").scrollIntoView();
  });
  document.addEventListener("picked", () => {
    if (form.elements.state.value === "picked") filter();
  });
  filter();
}

function map(frame) {
  const [WIDTH, HEIGHT] = [820, 560];
  const canvas = frame.querySelector("canvas");
  const tip = frame.querySelector(".tip");
  const spoken = document.querySelector(".spoken");
  const points = data.points;
  let [scale, x0, y0, current, drag] = [1, 0, 0, -1, null];

  const ratio = () => canvas.clientWidth / WIDTH;
  const at = (i) => [(points[i][0] - x0) * scale, (points[i][1] - y0) * scale];
  const kind = (i) => (!columns.keep[i] ? "--vermilion" : columns.outlier[i] ? "--green" : "--blue");
  const disc = (context, i, radius) => {
    context.beginPath();
    context.arc(...at(i), radius, 0, 2 * Math.PI);
  };
  const draw = () => {
    const style = window.getComputedStyle(frame);
    const dense = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * dense;
    canvas.height = canvas.clientHeight * dense;
    const context = canvas.getContext("2d");
    context.scale(ratio() * dense, ratio() * dense);
    const radius = count > 1500 ? 3 : count > 300 ? 4 : 5;
    const colors = new Map();
    const color = (name) => {
      // Computed values of variables keep light-dark(); that of a property is resolved.
      if (!colors.has(name)) {
        frame.style.setProperty("outline-color", `var(${name})`);
        colors.set(name, window.getComputedStyle(frame).outlineColor);
        frame.style.removeProperty("outline-color");
      }
      return colors.get(name);
    };
    const layers = [...Array(count).keys()].sort((a, b) => passes(a) - passes(b) || columns.outlier[a] - columns.outlier[b]);
    for (const i of layers) {
      context.globalAlpha = passes(i) ? 0.8 : 0.12;
      context.fillStyle = color(kind(i));
      disc(context, i, radius);
      context.fill();
    }
    context.globalAlpha = 1;
    context.strokeStyle = style.color;
    context.lineWidth = 2;
    for (const i of picked) {
      disc(context, i, radius + 2);
      context.stroke();
    }
    if (current >= 0 && !tip.hidden) {
      context.lineWidth = 2.5;
      disc(context, current, radius + 5);
      context.stroke();
    }
  };
  const show = (i) => {
    current = i;
    const [x, y] = at(i).map((each) => each * ratio());
    const image = tip.querySelector("img");
    image.hidden = !data.pictures[i];
    if (data.pictures[i]) image.src = data.pictures[i];
    tip.querySelector("span").textContent = columns.path[i];
    tip.hidden = false;
    const above = y - tip.offsetHeight - 14;
    tip.style.left = `${Math.max(0, Math.min(frame.clientWidth - tip.offsetWidth, x - tip.offsetWidth / 2))}px`;
    tip.style.top = `${above >= 0 ? above : y + 14}px`;
    draw();
  };
  const hide = () => {
    if (tip.hidden) return;
    tip.hidden = true;
    draw();
  };
  const nearest = (x, y, within) => {
    let [found, least] = [-1, within * within];
    points.forEach((_, i) => {
      const [px, py] = at(i);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (passes(i) && distance <= least) [found, least] = [i, distance];
    });
    return found;
  };
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / ratio(), (event.clientY - box.top) / ratio()];
  };
  const zoom = (by, [x, y] = [WIDTH / 2, HEIGHT / 2]) => {
    const next = by ? Math.max(1, Math.min(64, scale * by)) : 1;
    const [px, py] = [x0 + x / scale, y0 + y / scale];
    move(px - x / next, py - y / next, next);
  };
  const move = (x, y, next) => {
    scale = next;
    x0 = Math.max(0, Math.min(WIDTH - WIDTH / scale, x));
    y0 = Math.max(0, Math.min(HEIGHT - HEIGHT / scale, y));
    frame.style.touchAction = scale > 1 ? "none" : "pan-y";
    if (current >= 0 && !tip.hidden) show(current);
    else draw();
  };
  const speak = () => {
    spoken.textContent = `${columns.path[current]}, ${picked.has(current) ? "selected, " : ""}${cell("keep", current)}`;
  };
  const step = (key) => {
    const axis = key === "ArrowLeft" || key === "ArrowRight" ? 0 : 1;
    const order = points.map((_, i) => i).filter((i) => passes(i) || i === current);
    order.sort((a, b) => points[a][axis] - points[b][axis] || a - b);
    const by = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
    const next = order[Math.max(0, Math.min(order.length - 1, order.indexOf(current) + by))];
    const [x, y] = at(next);
    if (x < 0 || y < 0 || x > WIDTH || y > HEIGHT) {
      move(points[next][0] - WIDTH / scale / 2, points[next][1] - HEIGHT / scale / 2, scale);
    }
    show(next);
    speak();
  };

  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (drag && scale > 1 && event.buttons) {
      drag.moved = drag.moved || Math.hypot(x - drag.x, y - drag.y) > 4;
      if (drag.moved) move(drag.x0 - (x - drag.x) / scale, drag.y0 - (y - drag.y) / scale, scale);
      return;
    }
    const i = nearest(x, y, 18 / ratio());
    if (i >= 0 && (i !== current || tip.hidden)) show(i);
    else if (i < 0) hide();
  });
  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = place(event);
    drag = { x, y, x0, y0, moved: false };
  });
  canvas.addEventListener("click", (event) => {
    const i = drag?.moved ? -1 : nearest(...place(event), 18 / ratio());
    if (i >= 0) {
      show(i);
      pick([i], !picked.has(i));
    }
    drag = null;
  });
  canvas.addEventListener("dblclick", (event) => zoom(2, place(event)));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the wheel alone scrolls the page
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, place(event));
  }, { passive: false });
  frame.addEventListener("pointerleave", hide);
  frame.addEventListener("focus", () => {
    if (!frame.matches(":focus-visible")) return;
    const i = current >= 0 ? current : nearest(WIDTH / 2, HEIGHT / 2, Infinity);
    if (i < 0) return;
    show(i);
    speak();
  });
  frame.addEventListener("blur", hide);
  frame.addEventListener("keydown", (event) => {
    if (event.target !== frame || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") hide();
    else if (event.key === "+" || event.key === "=") zoom(2, current >= 0 ? at(current) : undefined);
    else if (event.key === "-") zoom(0.5, current >= 0 ? at(current) : undefined);
    else if (event.key.startsWith("Arrow")) step(event.key);
    else if ((event.key === " " || event.key === "Enter") && current >= 0) {
      pick([current], !picked.has(current));
      speak();
    } else return;
    event.preventDefault();
  });
  for (const each of frame.querySelectorAll("[data-zoom]")) {
    each.addEventListener("click", () => zoom(Number(each.dataset.zoom)));
  }
  for (const name of ["picked", "filtered"]) document.addEventListener(name, draw);
  document.getElementById("theme").addEventListener("click", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(draw).observe(canvas);
}

selections();
document.querySelectorAll(".gallery-of").forEach(gallery);
if (document.getElementById("choices")) thresholds();
browse();
document.querySelectorAll("#frame").forEach(map);
