// Two items side by side: what they look like, turned together, and what their payloads say.

import * as api from "../api.js";
import { isNoted } from "../detail.js";
import { h, nameOf, plain, thumbnail, titled } from "../dom.js";
import { blank } from "../results.js";
import { panel } from "./panel.js";
import { open as view, orbit } from "./viewer.js";

const said = (value) => (value == null ? "–" : Array.isArray(value) ? value.filter(plain).join(", ") : plain(value) ? String(value) : null);

// The keys of both payloads, inner ones by their path; without what an ingest notes for itself.
function lines(payload, before = "") {
  return Object.entries(payload).filter(([key]) => before || !isNoted(payload, key)).flatMap(([key, value]) => (value && typeof value === "object" && !Array.isArray(value) ? (before ? [] : lines(value, `${key}.`)) : [[before + key, said(value)]])).filter(([, value]) => value);
}

function table(items) {
  const [one, other] = items.map(({ payload }) => new Map(lines(payload)));
  const captions = items.map(({ observations }) => observations.filter(({ kind }) => kind === "caption").map(({ text }) => text));
  const row = (name, values) => h("tr", { class: values[0] === values[1] ? null : "differs" }, h("th", { scope: "row" }, name), ...values.map((value) => h("td", {}, value)));
  return h("table", {}, h("thead", {}, h("tr", {}, h("td", {}), ...items.map((item) => h("th", { scope: "col" }, nameOf(item), h("br"), h("span", { class: "quiet" }, item.id))))),
    h("tbody", {}, ...[...new Set([...one.keys(), ...other.keys()])].map((key) => row(titled(key), [one.get(key) ?? "–", other.get(key) ?? "–"])),
      row("Captions", captions.map((texts) => texts.join(" · ") || "–"))));
}

function face(item) {
  const seen = item.observations.find(({ kind }) => kind === "view") ?? item.observations.find(({ url }) => url);
  return seen ? thumbnail(api.smallOf(seen), { alt: nameOf(item), loading: "eager" }) : h("p", { class: "quiet" }, blank(item));
}

export async function compare(ids) {
  const items = await Promise.all(ids.map(api.item));
  const places = items.map((item) => h("div", { class: "stage" }, face(item)));
  const open = [];
  const dialog = panel("Compare", [h("div", { class: "pair" }, ...places), h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "What they are" }, table(items))], { id: "compare", class: "" });
  dialog.addEventListener("close", () => open.forEach((viewer) => viewer.close()));
  dialog.addEventListener("keydown", (event) => open.find(({ canvas }) => canvas === event.target)?.keys(event));
  if (!items.every(api.modelOf)) return;
  const camera = orbit(); // of both
  await Promise.all(items.map(async (item, at) => {
    const viewer = await view(api.modelOf(item), nameOf(item), camera).catch(() => null);
    if (!viewer) return;
    if (!dialog.open) return viewer.close();
    open.push(viewer);
    places[at].replaceChildren(viewer.canvas);
  }));
}
