// The pictures of an item: views turn by dragging or arrow keys.

import { h } from "./dom.js";

const DRAG = 36; // pixels from one view to the next

export function turntable(pictures, matched) {
  const isMatch = (seen) => seen.kind === matched?.kind && seen.index === matched?.index;
  const views = pictures.filter((seen) => seen.kind === "view");
  const large = h("img", { alt: "", width: 224, height: 224, draggable: "false" });
  const mark = h("span", { class: "mark" });
  const link = h("a", { target: "_blank", rel: "noopener", class: "file" }, "open the picture");
  const table = h("div", { class: "table", tabindex: "0", role: "slider", "aria-label": "Turn it", "aria-valuemin": "1", "aria-valuemax": pictures.length },
    large, mark);
  const thumbs = pictures.map((seen, place) =>
    h("button", { class: isMatch(seen) ? "match" : null, "aria-label": `${seen.kind} ${seen.index + 1}${isMatch(seen) ? ", the one that matched" : ""}`, onclick: () => turn(place) },
      h("img", { src: seen.url, alt: "" })));
  let at = 0;

  // Laid over the picture as the encoder sees it, until it is turned.
  function cover(map) {
    const { clientWidth: wide, clientHeight: high, naturalWidth, naturalHeight } = large;
    const scale = Math.min(wide / naturalWidth, high / naturalHeight);
    const shown = [naturalWidth * scale, naturalHeight * scale];
    const [width, height] = map.hasAttribute("data-cut") ? [Math.min(...shown), Math.min(...shown)] : shown;
    Object.assign(map.style, { width: `${width}px`, height: `${height}px`, left: `${(wide - width) / 2}px`, top: `${(high - height) / 2}px` });
    table.querySelector(".heat")?.remove();
    table.append(map);
  }

  function turn(place) {
    table.querySelector(".heat")?.remove();
    at = (place + pictures.length) % pictures.length;
    const seen = pictures[at];
    const name = `${seen.kind} ${seen.index + 1}`;
    large.src = link.href = seen.url;
    mark.textContent = isMatch(seen) ? `${name} · matched` : name;
    mark.classList.toggle("match", isMatch(seen));
    table.setAttribute("aria-valuenow", at + 1);
    table.setAttribute("aria-valuetext", mark.textContent);
    thumbs.forEach((thumb, i) => thumb.setAttribute("aria-pressed", String(i === at)));
  }

  // Dragging goes round the views; a photo is not on their ring.
  function dragged(from, pixels) {
    const start = views.indexOf(pictures[from]);
    if (start < 0 || views.length < 2) return;
    const step = Math.round(pixels / DRAG) % views.length;
    turn(pictures.indexOf(views[(start - step + views.length) % views.length]));
  }
  table.addEventListener("pointerdown", (down) => {
    const from = at;
    table.setPointerCapture(down.pointerId);
    const move = (event) => dragged(from, event.clientX - down.clientX);
    table.addEventListener("pointermove", move);
    const stop = () => table.removeEventListener("pointermove", move);
    for (const end of ["pointerup", "pointercancel"]) table.addEventListener(end, stop, { once: true });
  });

  const keys = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1 }[event.key];
    if (event.key === "Home") turn(0);
    else if (event.key === "End") turn(pictures.length - 1);
    else if (step && (event.key.endsWith("t") || event.target === table)) turn(at + step);
    else return;
    event.preventDefault();
  };
  turn(Math.max(0, pictures.findIndex(isMatch)));
  const hint = h("p", { class: "quiet hint" }, views.length > 1 && "Drag or use the arrow keys to turn it · ", link);
  const strip = h("div", { class: "strip", role: "group", "aria-label": "Views and photos" }, ...thumbs);
  return { current: () => pictures[at], cover, element: h("div", { class: "stage" }, table, strip, hint), keys };
}
