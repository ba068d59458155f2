// The pictures of an item: views turn by dragging or arrow keys. A mesh is shown in 3D over them, where the browser can.

import { smallOf } from "../api.js";
import { h, patient } from "../dom.js";

const DRAG = 36; // pixels from one view to the next

const LARGE = 512; // pixels of a view that is rendered anew

// `mesh`: the address of the GLB file, if there is one; `name` is what it is called.
export function turntable(pictures, matched, mesh, name) {
  const isMatch = (seen) => seen.kind === matched?.kind && seen.index === matched?.index;
  const views = pictures.filter((seen) => seen.kind === "view");
  const large = patient(h("img", { alt: "", width: 224, height: 224, draggable: "false" }));
  const mark = h("span", { class: "mark" });
  const link = h("a", { target: "_blank", rel: "noopener", class: "file" }, "open the picture");
  const table = h("div", { class: "table", tabindex: "0", role: "slider", "aria-label": "Turn it", "aria-valuemin": "1", "aria-valuemax": pictures.length },
    large, mark);
  const thumbs = pictures.map((seen, place) =>
    h("button", { class: isMatch(seen) ? "match" : null, "aria-label": `${seen.kind} ${seen.index + 1}${isMatch(seen) ? ", the one that matched" : ""}`, onclick: () => { touched = true; turn(place); } },
      h("img", { src: smallOf(seen), alt: "" })));
  const solidButton = h("button", { class: "in3d", hidden: true, "aria-pressed": "false", onclick: () => raise(true) }, "3D");
  let at = 0;
  let viewer = null, isSolid = false, touched = false, closed = false;

  // The mesh instead of the pictures, or the other way round.
  function raise(solid) {
    isSolid = solid;
    table.hidden = solid;
    for (const part of [viewer?.canvas, viewer?.tools]) if (part) part.hidden = !solid;
    solidButton.setAttribute("aria-pressed", String(solid));
    if (solid) thumbs.forEach((thumb) => thumb.setAttribute("aria-pressed", "false"));
    hint.hidden = solid;
  }

  // Larger, as soon as it is there: a view is rendered anew, a photo is the file, if the browser can show it.
  function sharpen(seen) {
    if (seen.kind === "view" && !mesh) return;
    const src = seen.kind === "view" ? `${seen.url}&size=${LARGE}` : seen.url;
    const image = h("img", { src, alt: "" });
    image.decode().then(() => { if (pictures[at] === seen) large.src = src; }, () => {});
  }

  // Laid over the picture as the encoder sees it, until it is turned.
  function cover(map) {
    raise(false);
    thumbs[at].setAttribute("aria-pressed", "true");
    table.querySelector(".heat")?.remove();
    table.append(map);
    fit();
  }

  // The heat map lies on the picture, however large that is now.
  function fit() {
    const map = table.querySelector(".heat");
    const { clientWidth: wide, clientHeight: high, naturalWidth, naturalHeight } = large;
    if (!map || !naturalWidth) return;
    const scale = Math.min(wide / naturalWidth, high / naturalHeight);
    const shown = [naturalWidth * scale, naturalHeight * scale];
    const [width, height] = map.hasAttribute("data-cut") ? [Math.min(...shown), Math.min(...shown)] : shown;
    Object.assign(map.style, { width: `${width}px`, height: `${height}px`, left: `${(wide - width) / 2}px`, top: `${(high - height) / 2}px` });
  }
  new ResizeObserver(fit).observe(table);

  function turn(place) {
    table.querySelector(".heat")?.remove();
    at = (place + pictures.length) % pictures.length;
    const seen = pictures[at];
    raise(false);
    sharpen(seen);
    const said = `${seen.kind} ${seen.index + 1}`;
    large.src = smallOf(seen);
    link.href = seen.url;
    mark.textContent = isMatch(seen) ? `${said} · matched` : said;
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
    touched = true;
    table.setPointerCapture(down.pointerId);
    const move = (event) => dragged(from, event.clientX - down.clientX);
    table.addEventListener("pointermove", move);
    const stop = () => table.removeEventListener("pointermove", move);
    for (const end of ["pointerup", "pointercancel"]) table.addEventListener(end, stop, { once: true });
  });

  const keys = (event) => {
    if (isSolid) return void viewer.keys(event); // false would keep Escape from closing the dialog
    touched = true;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1 }[event.key];
    if (event.key === "Home") turn(0);
    else if (event.key === "End") turn(pictures.length - 1);
    else if (step && (event.key.endsWith("t") || event.target === table)) turn(at + step);
    else return;
    event.preventDefault();
  };
  const hint = h("p", { class: "quiet hint" }, views.length > 1 && "Drag or use the arrow keys to turn it · ", link);
  const strip = h("div", { class: "strip", role: "group", "aria-label": "Views and photos" }, solidButton, ...thumbs);
  const element = h("div", { class: "stage" }, table, strip, hint);
  turn(Math.max(0, pictures.findIndex(isMatch)));

  // The viewer is loaded only now; without WebGL the pictures stay.
  async function load() {
    const { open } = await import("./viewer.js");
    const opened = await open(mesh, name);
    if (closed) return opened.close();
    viewer = opened;
    table.after(viewer.canvas, viewer.tools);
    solidButton.hidden = false;
    raise(!touched && !table.querySelector(".heat"));
  }
  if (mesh) load().catch((error) => { hint.append(` · No 3D view: ${error.message}.`); });
  const close = () => { closed = true; viewer?.close(); };
  return { current: () => pictures[at], cover, element, keys, close };
}
