// Filters by what the payloads say: the keys are those of the first items, the counts are the service's.

import { current, go, isIdle } from "./address.js";
import { facets, scroll } from "./api.js";
import { $, h, plain, redraw, titled, toolbar, worded } from "./dom.js";
import { filterOf, found as foundBy } from "./question.js";
import { learn } from "./sort.js";

const LOOKED_AT = 100;
const MOST_KEYS = 8;
const BEST = 100; // results of a search that are counted
const FEW_VALUES = 12, MOST_VALUES = 40;
const OF_FILES = new Set(["path", "content", "part_names"]); // what ingestion notes of each file
let keys;
let all = { values: {}, ranges: {} }; // of all items
let ofFiles = false;
let isOpen = false; // else only what is chosen is shown
let latest = 0;

const short = (value) => plain(value) && String(value).length <= 40;

function* keysOf(payload, before = "") {
  for (const [name, value] of Object.entries(payload)) {
    if (name.includes(".") || (OF_FILES.has(name) && "content" in payload)) continue;
    if (Array.isArray(value) ? value.length && value.every(short) : short(value)) yield before + name;
    else if (!before && value && typeof value === "object" && !Array.isArray(value)) yield* keysOf(value, `${name}.`);
  }
}

// Keys with more than one value, and fewer than there are items.
export async function discover() {
  const { items } = await scroll({ limit: LOOKED_AT });
  const often = new Map();
  for (const { payload } of items) for (const key of new Set(keysOf(payload))) often.set(key, (often.get(key) ?? 0) + 1);
  ofFiles = items.some(({ payload }) => "content" in payload && "path" in payload);
  const commonest = [...often].sort((a, b) => b[1] - a[1]).map(([key]) => key).slice(0, 3 * MOST_KEYS);
  const { facets: found, ranges } = commonest.length ? await facets(commonest) : { facets: {}, ranges: {} };
  const telling = (values = []) => values.length > 1 && (values.length <= FEW_VALUES || (values.length <= MOST_VALUES && values.some(({ count }) => count > 1)));
  const spread = (key) => ranges[key]?.min < ranges[key]?.max;
  const listed = (key) => key.endsWith("s") && commonest.includes(key.slice(0, -1)); // "colours" beside "colour"
  const twice = (key) => listed(key) || (ofFiles && key === "measured.bytes"); // beside the size of the file
  keys = commonest.filter((key) => !twice(key) && (telling(found[key]) || spread(key))).slice(0, MOST_KEYS);
  all = { values: found, ranges };
  learn(keys.filter(spread).map((key) => [key, nameOf(key)]), current());
  await show(current());
}

const nameOf = (key) => titled(key, keys, ofFiles);

// What is known of all items: for each key its name, values and range.
export const known = () => (keys ?? []).map((key) => ({ key, name: nameOf(key), values: all.values[key] ?? [], range: all.ranges[key], many: isRange(key, all) }));

// The counts of a key are of what was found, or of all items, that fits all other keys.
async function counts(asked) {
  const { where } = asked;
  const query = await foundBy(asked, BEST);
  const bound = Object.keys(where);
  const free = keys.filter((key) => !bound.includes(key));
  const without = (key) => filterOf(Object.fromEntries(Object.entries(where).filter(([other]) => other !== key)));
  const answers = await Promise.all([
    free.length ? facets(free, filterOf(where), query) : {},
    ...bound.map((key) => facets([key], without(key), query)),
  ]);
  const joined = (part) => Object.assign({}, ...answers.map((answer) => answer[part]));
  const values = joined("facets");
  // What the search did not find can still be chosen: filters come before it.
  if (query) for (const key of free) values[key] = withMissing(values[key] ?? [], (all.values[key] ?? []).map(({ value }) => value));
  return { values, ranges: query ? all.ranges : joined("ranges"), best: query && BEST };
}

const withMissing = (values, every) => [...values, ...every.filter((value) => !values.some((one) => one.value === value)).map((value) => ({ value, count: 0 }))];

function choose(key, wanted) {
  const { [key]: _, ...others } = current().where;
  go({ where: Object.keys(wanted).length ? { ...others, [key]: wanted } : others });
}

function toggle(key, value, chosen) {
  choose(key, (current().where[key] ?? []).filter((other) => other !== value).concat(chosen ? [value] : []));
}

// From here to there, with what there is as a hint.
function range(key, { min, max } = {}, bounds = {}) {
  const field = (end, word, hint) => h("label", {}, h("span", { class: "quiet" }, word),
    h("input", { type: "number", step: "any", value: bounds[end], placeholder: hint, "data-key": `${end} ${key}`, onchange: ({ target }) => {
      const { [end]: _, ...other } = current().where[key] ?? {};
      choose(key, target.value === "" ? other : { ...other, [end]: Number(target.value) });
    } }));
  return [field("gte", "from", min), field("lte", "to", max)];
}

const told = ({ gte, lte }) => (lte == null ? `from ${gte}` : gte == null ? `to ${lte}` : `${gte} – ${lte}`);

function choice(key, { value, count }, chosen) {
  const box = h("input", { type: "checkbox", checked: chosen, "data-key": `${key}=${value}`, onchange: (event) => toggle(key, value, event.target.checked) });
  return h("label", {}, box, h("span", {}, worded(value)), h("span", { class: "quiet" }, count ? count.toLocaleString("en") : ""));
}

function choices(key, values, chosen = []) {
  const every = withMissing(values, chosen);
  if (every.every(({ value }) => typeof value === "number")) every.sort((one, other) => one.value - other.value);
  return every.map((one) => choice(key, one, chosen.includes(one.value)));
}

const isRange = (key, { values, ranges }) => Object.hasOwn(ranges, key) && (values[key] ?? []).length > FEW_VALUES;

function facet(key, counted, chosen, open) {
  const { values, ranges } = counted;
  const found = values[key] ?? [], name = nameOf(key);
  const between = chosen ? !Array.isArray(chosen) : isRange(key, counted);
  const sum = chosen ? `${name}: ${between ? told(chosen) : chosen.map(worded).join(", ")}` : name;
  return h("details", { class: chosen ? "facet chosen" : "facet", name: "facet", open, "data-facet": key },
    h("summary", { "data-key": key }, h("span", {}, sum)),
    h("div", { class: between ? "choices range" : "choices", role: "group", "aria-label": name }, ...(between ? range(key, ranges[key], chosen) : choices(key, found, chosen))));
}

export async function show(asked) {
  if (!keys) return;
  const turn = ++latest;
  const chosen = Object.keys(asked.where).length;
  $("narrow").hidden = !keys.length;
  $("narrow").ariaExpanded = String(isOpen);
  $("narrow").textContent = chosen ? `Filters (${chosen})` : "Filters";
  $("filters").hidden = !(isOpen || chosen) || isIdle(asked);
  if ($("filters").hidden) return $("filters").replaceChildren();
  if (!$("filters").firstChild) draw(asked, all); // at once, so that nothing moves when the counts come
  const found = await counts(asked).catch(() => null);
  if (found && turn === latest) draw(asked, found);
}

const opened = () => $("filters").querySelector("details[open]");

function draw({ where }, found) {
  const shown = isOpen ? [...new Set([...keys, ...Object.keys(where)])] : Object.keys(where);
  const open = opened()?.dataset.facet;
  redraw($("filters"),
    ...shown.filter((key) => where[key] || found.values[key]?.length).map((key) => facet(key, found, where[key], key === open)),
    Object.keys(where).length && h("button", { class: "clear", onclick: () => { go({ where: {} }); $("words").focus(); } }, "Clear all filters"),
    isOpen && found.best && h("span", { class: "quiet" }, `numbers are of the best ${found.best} results`));
}

export function listen() {
  const shut = () => document.querySelector(".facet[open]")?.removeAttribute("open");
  addEventListener("click", (event) => { if (!event.composedPath().some((one) => one.matches?.(".facet"))) shut(); });
  addEventListener("keydown", (event) => {
    const details = event.key === "Escape" && event.target.closest?.(".facet[open]");
    if (!details) return;
    event.preventDefault(); // a dialog around it stays
    details.firstElementChild.focus();
    shut();
  });
  toolbar($("tools"));
  $("narrow").addEventListener("click", () => {
    isOpen = !isOpen;
    show(current());
  });
}
