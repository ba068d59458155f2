// Filters by what the payloads say: the keys are those of the first items, the counts are the service's.

import { current, go, isIdle } from "./address.js";
import { facets, scroll } from "./api.js";
import { $, h, redraw } from "./dom.js";
import { filterOf } from "./question.js";

const LOOKED_AT = 100;
const MOST_KEYS = 8;
const FEW_VALUES = 12, MOST_VALUES = 40;
let keys = [];
let latest = 0;

const plain = (value) => ["string", "number", "boolean"].includes(typeof value);
const short = (value) => plain(value) && String(value).length <= 40;

function* keysOf(payload, before = "") {
  for (const [name, value] of Object.entries(payload)) {
    if (name.includes(".")) continue;
    if (Array.isArray(value) ? value.length && value.every(short) : short(value)) yield before + name;
    else if (!before && value && typeof value === "object" && !Array.isArray(value)) yield* keysOf(value, `${name}.`);
  }
}

// Looks for keys that tell items apart: more than one value, and, if there are many, not one for every item.
export async function discover() {
  const { items } = await scroll({ limit: LOOKED_AT });
  const often = new Map();
  for (const { payload } of items) for (const key of new Set(keysOf(payload))) often.set(key, (often.get(key) ?? 0) + 1);
  const commonest = [...often].sort((a, b) => b[1] - a[1]).map(([key]) => key).slice(0, 3 * MOST_KEYS);
  const found = commonest.length ? (await facets(commonest)).facets : {};
  const telling = (values = []) => values.length > 1 && (values.length <= FEW_VALUES || (values.length <= MOST_VALUES && values.some(({ count }) => count > 1)));
  keys = commonest.filter((key) => telling(found[key])).slice(0, MOST_KEYS);
  await show(current());
}

// The counts of a key are of the items that fit all other keys, so that a second value can be chosen beside the first.
async function counts(where) {
  const asked = Object.keys(where);
  const free = keys.filter((key) => !asked.includes(key));
  const without = (key) => filterOf(Object.fromEntries(Object.entries(where).filter(([other]) => other !== key)));
  const answers = await Promise.all([
    free.length ? facets(free, filterOf(where)) : { facets: {} },
    ...asked.map((key) => facets([key], without(key))),
  ]);
  return Object.assign({}, ...answers.map((answer) => answer.facets));
}

function toggle(key, value, chosen) {
  const { where } = current();
  const values = (where[key] ?? []).filter((other) => other !== value).concat(chosen ? [value] : []);
  const { [key]: _, ...others } = where;
  go({ where: values.length ? { ...others, [key]: values } : others });
}

function choice(key, { value, count }, chosen) {
  const box = h("input", { type: "checkbox", checked: chosen, "data-key": `${key}=${value}`, onchange: (event) => toggle(key, value, event.target.checked) });
  return h("label", {}, box, h("span", {}, String(value)), h("span", { class: "quiet" }, count.toLocaleString("en")));
}

function facet(key, values, chosen, open) {
  const missing = chosen.filter((value) => !values.some((one) => one.value === value)).map((value) => ({ value, count: 0 }));
  const name = key.replaceAll("_", " ").replaceAll(".", " ");
  const sum = chosen.length ? `${name}: ${chosen.join(", ")}` : name;
  return h("details", { class: chosen.length ? "facet chosen" : "facet", name: "facet", open, "data-facet": key },
    h("summary", { "data-key": key }, h("span", {}, sum)),
    h("div", { class: "choices", role: "group", "aria-label": name },
      ...[...values, ...missing].map((one) => choice(key, one, chosen.includes(one.value)))));
}

export async function show(asked) {
  const turn = ++latest;
  const { where } = asked;
  const all = [...new Set([...keys, ...Object.keys(where)])];
  $("filters").hidden = !all.length || isIdle(asked);
  if ($("filters").hidden) return;
  const found = await counts(where).catch(() => null);
  if (!found || turn !== latest) return;
  const open = $("filters").querySelector("details[open]")?.dataset.facet;
  redraw($("filters"),
    ...all.filter((key) => where[key] || found[key]?.length).map((key) => facet(key, found[key] ?? [], where[key] ?? [], key === open)),
    Object.keys(where).length && h("button", { type: "button", class: "clear", onclick: () => { go({ where: {} }); $("words").focus(); } }, "Clear all filters"));
}

export function listen() {
  const shut = () => $("filters").querySelector("details[open]")?.removeAttribute("open");
  addEventListener("click", (event) => { if (!event.target.closest?.(".facet")) shut(); });
  $("filters").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    $("filters").querySelector("details[open] summary")?.focus();
    shut();
  });
}
