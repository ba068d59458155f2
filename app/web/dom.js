// Elements without a framework: h("p", {class: "quiet"}, "words", child)

export const $ = (id) => document.getElementById(id);

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null && child !== false));
  return element;
}

const PATHS = {
  cross: "M6 6l12 12M18 6L6 18",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  alike: "M4 9.5c3-4 5-4 8-1.5s5 2.5 8-1.5M4 16.5c3-4 5-4 8-1.5s5 2.5 8-1.5",
  words: "M5 6h14M12 6v13",
  mesh: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4",
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
  return h("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick, ...attributes }, icon(name));
}

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

// An item's name for people: what its payload calls it, else its id.
export function nameOf(id, payload) {
  const name = payload.name ?? payload.title ?? payload.kind;
  return typeof name === "string" && name ? name : id;
}

// Draws anew without taking the keyboard away from whoever is at one of its controls (they have a data-key).
export function redraw(parent, ...children) {
  const key = parent.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  parent.replaceChildren(...children.filter(Boolean));
  if (key) parent.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}
