// Before anything is asked: the newest items, the kinds there are, and a sentence about each facet.

import { go, isIdle } from "./address.js";
import * as api from "./api.js";
import { $, count, h, nameOf, thumbnail, worded } from "./dom.js";
import { known } from "./filters.js";
import { blank, link, repeats } from "./results.js";

const NEWEST = 12;
const KINDS = ["kind", "type", "category", "class", "label", "folder"];
const MOST_KINDS = 16;
const SAID = 4; // values of a facet that are named
let drawn = null; // the collection, its version and facets that are on screen

const filter = (key, value) => go({ where: { [key]: [value] } });

// What stands for an item: its first photo, else a view of its mesh.
const pictured = (item) => item.observations.find((one) => one.url);
const face = ({ id, observations }) => thumbnail(api.thumbnailOf(id), observations.some(({ kind }) => kind === "photo") ? {} : { class: "drawn" });

function tile(item) {
  const name = nameOf(item);
  const said = item.observations.find(({ text }) => text && !repeats(text, name))?.text;
  return h("li", {}, link(item.id, { class: "tile", title: item.id }, h("span", { class: "picture" }, pictured(item) ? face(item) : said ?? blank(item)), h("span", { class: "name" }, name)));
}

async function kindTile(key, { value, count: number }) {
  const { items } = await api.scroll({ limit: 1, filter: { [key]: { in: [value] } } });
  const shown = items.find(pictured);
  return h("li", {}, h("button", { class: "tile", onclick: () => filter(key, value) },
    h("span", { class: "picture" }, shown && face(shown)), h("span", { class: "name" }, worded(value)), h("span", { class: "quiet" }, number.toLocaleString("en"))));
}

// The facet by which things are told apart first.
const kindsOf = (facets) => KINDS.map((name) => facets.find(({ key }) => key.split(".").at(-1).toLowerCase() === name)).find(Boolean);

function sentence({ key, name, values, range, many }) {
  if (many) return h("li", {}, h("strong", {}, name), ` from ${range.min.toLocaleString("en")} to ${range.max.toLocaleString("en")}.`);
  const said = values.slice(0, SAID).flatMap(({ value, count: number }, at) => [at ? ", " : " ", h("button", { class: "link", onclick: () => filter(key, value) }, worded(value)), ` (${number.toLocaleString("en")})`]);
  const more = values.length - SAID;
  return h("li", {}, h("strong", {}, name), ...said, more > 0 ? ` and ${more} more.` : ".");
}

// Draws it for what the service is now (`about`).
export async function show(asked, about) {
  $("start").hidden = !isIdle(asked) || !about?.collection.items;
  const facets = known();
  const stamp = JSON.stringify([asked.shelf, about?.collection.version, facets]);
  if ($("start").hidden || drawn === stamp) return;
  drawn = stamp;
  const kinds = kindsOf(facets);
  const [{ items }, tiles] = await Promise.all([
    api.scroll({ limit: NEWEST, sort: "newest" }),
    kinds && !kinds.many ? Promise.all(kinds.values.slice(0, MOST_KINDS).map((one) => kindTile(kinds.key, one))) : [],
  ]);
  if (drawn !== stamp) return;
  $("start").replaceChildren(
    h("div", { class: "bar" }, h("h2", {}, "Newest"), h("button", { class: "plain", onclick: () => go({ all: true }) }, `All ${count(about.collection.items, "item")}`)),
    h("ul", { class: "tiles newest" }, ...items.map(tile)),
    ...(tiles.length ? [h("h2", {}, kinds.name), h("ul", { class: "tiles" }, ...tiles)] : []),
    ...(facets.length ? [h("h2", {}, "What is in it"), h("ul", { class: "sentences" }, ...facets.filter((one) => one !== kinds && !/^(name|title)$/.test(one.key)).map(sentence))] : []));
}

export const forget = () => { drawn = null; };
