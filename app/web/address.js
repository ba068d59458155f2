// What is asked, and its place in the address bar:
//   ?in=COLLECTION&q=words&like=ITEM&w=-0.5&target=text&sure=0.5&is.colour=red&from.price=5&sort=name&fold=1&good=ITEM&bad=ITEM&diversity=0.5&text=WORDS&item=OPEN
// A clue is words (q) or an item (like); w is the weight of the clue before it, 1 where it is not said.
// Words that are text are no filter. A file is kept for this visit, and the history's state names it.

import { plain } from "./dom.js";

const TARGETS = [...document.querySelectorAll("[name=target]")].map(({ value }) => value);
const files = new Map();

export const nothing = { shelf: "", clues: [], target: "item", sure: 0, where: {}, sort: "", fold: false, good: [], bad: [], diversity: 0, asText: [], all: false, item: null };
export const weightOf = (clue) => clue.weight ?? 1;
export const fileOf = (clue) => files.get(clue.key);

export function fileClue(file) {
  const key = `${Date.now()}-${files.size}`;
  files.set(key, file);
  return { key };
}

// A value of a filter as text: 12 and true are what they look like, a text that looks like one of them has quotes.
function scalar(text) {
  try {
    const value = JSON.parse(text);
    return plain(value) ? value : text;
  } catch {
    return text;
  }
}
const BOUNDS = { from: "gte", to: "lte" };
const written = (value) => (typeof value === "string" && scalar(value) === value ? value : JSON.stringify(value));

export function parse(search) {
  const asked = { ...nothing, clues: [], where: Object.create(null), good: [], bad: [], asText: [] };
  for (const [name, value] of new URLSearchParams(search)) {
    if (name === "in") asked.shelf = value;
    else if (name === "q" && value.trim()) asked.clues.push({ words: value });
    else if (name === "like" && value) asked.clues.push({ like: value });
    else if (name === "w" && Number(value) && asked.clues.length) asked.clues.at(-1).weight = Number(value);
    else if (name === "target" && TARGETS.includes(value)) asked.target = value;
    else if (name === "sure" && Number(value) > 0 && Number(value) <= 1) asked.sure = Number(value);
    else if (name === "diversity" && Number(value) > 0 && Number(value) <= 1) asked.diversity = Number(value);
    else if ((name === "good" || name === "bad") && value) asked[name].push(value);
    else if (name === "text" && value) asked.asText.push(value);
    else if (name === "all") asked.all = true;
    else if (name === "fold") asked.fold = true;
    else if (name === "sort") asked.sort = value;
    else if (name === "item" && value) asked.item = value;
    else if (name.startsWith("is.")) (asked.where[name.slice(3)] ??= []).push?.(scalar(value));
    else {
      const [, end, key] = name.match(/^(from|to)\.(.+)$/) ?? [];
      if (key && value.trim() && Number.isFinite(Number(value)) && !Array.isArray(asked.where[key])) (asked.where[key] ??= {})[BOUNDS[end]] = Number(value);
    }
  }
  return asked;
}

export function format({ shelf, clues, target, sure, where, sort, fold, good, bad, diversity, asText, all, item }) {
  const asked = new URLSearchParams(shelf ? { in: shelf } : {});
  for (const clue of clues) {
    if (clue.words) asked.append("q", clue.words);
    else if (clue.like) asked.append("like", clue.like);
    else continue;
    if (weightOf(clue) !== 1) asked.append("w", weightOf(clue));
  }
  if (target !== nothing.target) asked.append("target", target);
  if (sure) asked.append("sure", sure);
  for (const [key, wanted] of Object.entries(where)) {
    if (Array.isArray(wanted)) for (const value of wanted) asked.append(`is.${key}`, written(value));
    else for (const end in BOUNDS) if (BOUNDS[end] in wanted) asked.append(`${end}.${key}`, wanted[BOUNDS[end]]);
  }
  if (sort) asked.append("sort", sort);
  if (fold) asked.append("fold", "1");
  for (const id of good) asked.append("good", id);
  for (const id of bad) asked.append("bad", id);
  if (diversity) asked.append("diversity", diversity);
  for (const words of asText) asked.append("text", words);
  if (all) asked.append("all", "1");
  if (item) asked.append("item", item);
  return asked.size ? `/?${asked}` : "/";
}

export function current() {
  const asked = parse(location.search);
  const clues = history.state?.clues;
  return clues?.every((clue) => !clue.key || files.has(clue.key)) ? { ...asked, clues } : asked;
}

// Goes on from what is asked now; `changes` say what is different. Other clues have no examples yet.
export function go(changes) {
  const now = current();
  const next = { ...now, item: null, ...(changes.clues && { good: [], bad: [], asText: [] }), ...changes };
  const inner = !next.item ? 0 : !now.item ? 1 : history.state?.inner ? history.state.inner + 1 : 0; // steps back to where no item is open
  history.pushState({ clues: next.clues, inner }, "", format(next));
  dispatchEvent(new PopStateEvent("popstate"));
}

// Where the routes of the chosen collection are.
export function root() {
  const { shelf } = current();
  return shelf ? `/v1/collections/${encodeURIComponent(shelf)}` : "/v1";
}

export const isIdle = ({ clues, where, all }) => !clues.length && !all && !Object.keys(where).length;

// Whether examples and diversity change what is found.
export const learns = ({ clues, target }) => clues.length > 0 && target === "item";

// The question as text, for comparing; which item is open is no part of it.
export const signature = ({ item, ...asked }) => JSON.stringify(asked);
