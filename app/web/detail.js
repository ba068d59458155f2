// One item, all its sides: pictures to turn through, captions, payload, neighbours.

import { current, go } from "./address.js";
import * as api from "./api.js";
import * as clues from "./clues.js";
import { copier } from "./copying.js";
import { $, h, iconButton, nameOf, plain, thumbnail, titled } from "./dom.js";
import { thumbs } from "./judging.js";
import { link, more } from "./results.js";
import * as searching from "./searching.js";

const NEIGHBOURS = 6;
const MOST_LINES = 8; // of a payload that is shown unasked
const dialog = $("detail");
let stage = null; // the pictures on screen, and the mesh
let latest = null;

const FILE_NOTES = new Set(["source", "content", "part_names"]); // of an ingest: they tell people nothing
const isOfFile = (payload) => "content" in payload && "path" in payload;
export const isNoted = (payload, key) => isOfFile(payload) && FILE_NOTES.has(key);

// Bytes as people read them.
const sized = (bytes) => bytes < 1000 ? `${bytes} bytes` : bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

// An address leads there, such as to the page that an item is from.
const shown = (value) => typeof value === "number" ? value.toLocaleString("en") : /^https?:\/\/\S+$/.test(value) ? h("a", { href: value, target: "_blank", rel: "noreferrer" }, value) : String(value);

function payload(values) {
  const isFile = isOfFile(values);
  const lines = Object.entries(values)
    .flatMap(([name, value]) => value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value).map(([inner, one]) => [`${name}.${inner}`, one]) : [[name, value]])
    .filter(([name]) => !isNoted(values, name))
    .map(([name, value]) => [name, (isFile && name === "size") || name === "measured.bytes" ? sized(value) : Array.isArray(value) && value.every(plain) ? value.join(", ") : typeof value === "boolean" ? (value ? "yes" : "no") : value])
    .filter(([, value]) => plain(value) && value !== "");
  if (!lines.length) return null;
  const list = h("dl", {}, ...lines.flatMap(([name, value]) => [h("dt", {}, titled(name)), h("dd", {}, shown(value))]));
  return h("details", { open: lines.length <= MOST_LINES }, h("summary", { class: "quiet" }, "Properties"), list);
}

function captions(observations, matched) {
  const texts = new Set();
  const said = observations.filter((seen) => seen.kind === "caption" && !texts.has(seen.text) && texts.add(seen.text));
  const line = (seen) => {
    const isMatch = matched?.kind === "caption" && matched.index === seen.index;
    return h("li", { class: isMatch ? "matched" : null }, seen.text, isMatch && h("span", { class: "mark match" }, "matched"));
  };
  return said.length ? h("ul", {}, ...said.map(line)) : null;
}

async function neighbours(id, place) {
  const { hits } = await api.similar(id, { target: current().target, limit: NEIGHBOURS });
  if (!hits.length || latest !== id) return;
  const faces = await Promise.all(hits.map((hit) => hit.matched.url ? hit.matched : api.item(hit.id).then((item) => item.observations.find((seen) => seen.url))));
  if (latest !== id) return;
  place.append(h("h3", {}, "Similar"), h("ul", { class: "near" }, ...hits.map((hit, i) => {
    const name = nameOf(hit);
    return h("li", {}, link(hit.id, { "aria-label": `Open ${name}, ${hit.id}`, title: name }, faces[i] ? thumbnail(api.smallOf(faces[i])) : name));
  })));
}

// Items that show the same.
function folded(hit) {
  if (!hit?.duplicates?.length) return null;
  return h("section", { class: "same", "aria-label": "The same" }, h("h3", {}, "The same"),
    h("ul", {}, ...hit.duplicates.map(({ id, payload }) => h("li", {}, link(id, {}, payload.path ?? id)))));
}

// Two buttons, and the place for what they bring: why it matched, and its more general captions.
function insight(item, stage) {
  const place = h("div", { class: "why", "aria-live": "polite" });
  const bring = (label, style, work) => h("button", { class: style, onclick: async (event) => {
    event.target.setAttribute("aria-busy", "true");
    try {
      place.replaceChildren(h("h3", {}, label), ...(await work(await import("./ondemand/why.js"))).filter(Boolean));
    } catch (error) {
      place.replaceChildren(h("p", { class: "bad", role: "alert" }, error.message));
    }
    event.target.removeAttribute("aria-busy");
  } }, label);
  const isOne = current().clues.length === 1; // a mix has no one explanation
  const best = isOne && bring("Why this?", "plain explain", ({ explain }) => explain(item.id, stage));
  const other = item.observations.some(({ kind }) => kind === "caption") && bring("More general captions", "link general", ({ general }) => general(item));
  return { best, other, place };
}

// Deleting is asked for first, in place; the way out has the keyboard.
function deletion({ id, payload: { source, path, content } }, name, gone) {
  const place = h("div", { class: "deletion" });
  const after = source && path && content != null ? `The file ${path} stays, and the item comes back when its folder is read again.` : "It cannot be undone.";
  const ask = () => {
    const keep = h("button", { class: "plain", onclick: start }, "Keep it");
    place.replaceChildren(h("p", { role: "alert" }, `Delete ${name} (${id}) from the collection? ${after}`),
      h("button", { class: "plain danger", onclick: remove }, "Delete it"), keep);
    keep.focus();
  };
  const start = () => place.replaceChildren(h("button", { class: "quiet link", onclick: ask }, "Delete …"));
  const remove = () => api.remove(id).then(() => gone(id, name), (error) => {
    place.replaceChildren(h("p", { class: "bad", role: "alert" }, error.message));
  });
  start();
  return place;
}

// Back to the grid; an item opened from its own address has none in the history.
export const leave = () => (history.state?.inner ? history.go(-history.state.inner) : go({}));

export async function show(id, gone) {
  if (latest === id && dialog.open) return;
  latest = id;
  const item = await api.item(id);
  if (latest !== id) return;
  const hit = searching.hitOf(id);
  const matched = hit?.matched;
  const pictures = item.observations.filter((seen) => seen.url);
  const { turntable } = await import("./ondemand/turntable.js");
  if (latest !== id) return;
  const turning = pictures.length ? turntable(pictures, matched, api.modelOf(item), nameOf(item)) : null;
  stage?.close();
  stage = turning;
  const name = nameOf(item);
  const near = h("section", { class: "neighbours", "aria-label": "Similar items" });
  const found = insight(item, turning);
  const further = h("details", { class: "facet further" }, h("summary", {}, h("span", {}, "More")), h("div", { class: "choices" },
    h("button", { class: "link", onclick: () => clues.add({ like: id }) }, "Add to search"), found.other,
    item.files?.[0] && h("a", { class: "link", href: item.files[0].url, download: true }, `Original (${item.files[0].format})`),
    copier("Copy id", () => id), searching.isShown() && copier("Copy as curl", searching.command),
    deletion(item, name, gone)));
  const acts = h("p", { class: "deeds" },
    h("button", { class: "solid", onclick: () => more(id) }, "More like this"),
    found.best, hit && h("span", { class: "thumbs" }, ...thumbs(hit)));
  dialog.replaceChildren(
    h("div", { class: turning ? "sheet" : "sheet bare", tabindex: "-1", autofocus: true },
      turning?.element,
      h("div", { class: "facts" },
        h("h2", { id: "detail-title" }, name),
        h("p", { class: "quiet id" }, id),
        captions(item.observations, matched), h("div", { class: "menus" }, acts, further), found.place, folded(hit), near, payload(item.payload))),
    iconButton("cross", "Close", leave, { class: "icon close" }),
  );
  dialog.onkeydown = turning?.keys ?? null;
  if (!dialog.open) dialog.showModal();
  neighbours(id, near).catch(() => {});
}

export function hide() {
  latest = null;
  stage?.close();
  stage = null;
  if (!dialog.open) return;
  dialog.close();
  const at = document.activeElement;
  if (at === document.body || dialog.contains(at)) $("results").focus(); // what it was opened by is gone
}

export function listen() {
  dialog.addEventListener("cancel", (event) => { event.preventDefault(); leave(); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) leave(); });
}
