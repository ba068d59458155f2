// Elements without a framework: h("p", {class: "quiet"}, "words", child)

export const $ = (id) => document.getElementById(id);

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  if (tag === "button") element.type = "button";
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null && child !== false));
  return element;
}

const PAUSES = [1000, 4000]; // ms before a picture that did not come is asked for again

// A picture that is tried again; at last `giveUp` is called.
export function patient(image, giveUp = () => {}) {
  let tries = 0;
  image.addEventListener("load", () => { tries = 0; });
  image.addEventListener("error", () => {
    const { src } = image;
    if (tries === PAUSES.length) giveUp();
    else setTimeout(() => { if (image.src === src) image.src = src; }, PAUSES[tries++]);
  });
  return image;
}

const SMALL = 160; // pixels of a picture that is shown at most twice as large

// A small picture, or words in its place.
export function thumbnail(src, attributes = {}, otherwise = "no picture") {
  const image = h("img", { src, alt: "", loading: "lazy", width: 224, height: 224, ...attributes });
  image.addEventListener("load", () => {
    const { naturalWidth, naturalHeight } = image;
    if (Math.max(naturalWidth, naturalHeight) < SMALL) Object.assign(image.style, { maxWidth: `${2 * naturalWidth}px`, maxHeight: `${2 * naturalHeight}px` });
  });
  return patient(image, () => image.replaceWith(otherwise));
}

export const plain = (value) => ["string", "number", "boolean"].includes(typeof value);

const PATHS = {
  cross: "M6 6l12 12M18 6L6 18",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  alike: "M4 9.5c3-4 5-4 8-1.5s5 2.5 8-1.5M4 16.5c3-4 5-4 8-1.5s5 2.5 8-1.5",
  words: "M5 6h14M12 6v13",
  mesh: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4",
  thumb: "M7 11v9H4v-9zM7 11l4-8c1.6 0 2.5 1 2.5 2.5V9h5c1.3 0 2.1 1 1.9 2.2l-1.2 7c-.2 1-1 1.8-2 1.8H7",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  check: "M5 12.5l4.5 4.5L19 7.5",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
};

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS("http://www.w3.org/2000/svg", "path"));
  svg.firstChild.setAttribute("d", PATHS[name]);
  return svg;
}

// A button that is only an icon, with its name for those who cannot see it.
export function iconButton(name, label, onclick, attributes = {}) {
  return h("button", { class: "icon", "aria-label": label, title: label, onclick, ...attributes }, icon(name));
}

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

// The name of an item or hit: of its payload, else a caption, else the end of its id.
export function nameOf({ id, payload, matched, observations }) {
  const said = observations?.find((seen) => seen.kind === "caption") ?? matched;
  return [payload.name, payload.title, payload.kind, said?.text].find((name) => typeof name === "string" && name) ?? (id.split(/[/:]/).at(-1) || id).replace(/_/g, " ");
}

// Draws again and keeps the focus on the control with the same data-key.
export function redraw(parent, ...children) {
  const key = parent.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  parent.replaceChildren(...children.filter(Boolean));
  if (key) parent.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

// A value of a payload in words: files that lie in no inner folder have "." for it.
export const worded = (value) => (value === "." ? "top folder" : String(value));

// What is measured of a mesh, and its unit.
const NAMES = {
  "measured.width": "Width (m)", "measured.height": "Height (m)", "measured.depth": "Depth (m)",
  "measured.triangles": "Triangles", "measured.materials": "Materials", "measured.textures": "Textured materials", "measured.animated": "Animated", "measured.bytes": "File size, bytes",
};

// A key of a payload as a title: "unit_price" is "Unit price". Among other keys, its last part is enough if no
// other ends like it. `ofFiles`: ingestion noted where files are.
export function titled(key, among, ofFiles) {
  if (Object.hasOwn(NAMES, key)) return NAMES[key];
  if (key === "size" && ofFiles) return "File size, bytes";
  const end = (one) => one.split(".").at(-1);
  const shown = !among || among.some((other) => other !== key && end(other) === end(key)) ? key : end(key);
  const words = shown.replace(/([a-z])([A-Z])/g, "$1 $2").replace(/[_.]+/g, " ").trim();
  const low = /^[A-Z0-9 ]+$/.test(words) ? words : words.toLowerCase();
  return low.charAt(0).toUpperCase() + low.slice(1);
}

// Whether a key of the keyboard is meant for the page: nothing is typed, no dialog is open.
export const isFree = ({ target, ctrlKey, metaKey, altKey }) => !/INPUT|TEXTAREA|SELECT/.test(target.tagName) && !ctrlKey && !metaKey && !altKey && !document.querySelector("dialog[open]");

// One stop of the keyboard for several controls: arrows go from one to the next.
export function toolbar(element) {
  const controls = () => [...element.querySelectorAll(":scope > button, :scope > * > :is(button, summary, input)")];
  const stop = (at) => controls().forEach((one, place) => { one.tabIndex = place === at ? 0 : -1; });
  stop(0);
  element.addEventListener("keydown", (event) => {
    const all = controls(), at = all.indexOf(event.target);
    const to = at < 0 ? null : { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to == null || !all[to]) return;
    event.preventDefault();
    event.stopPropagation();
    stop(to);
    all[to].focus();
  });
  return element;
}
