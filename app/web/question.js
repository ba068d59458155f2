// What is asked becomes a request.

import { fileOf, learns, nothing, root, weightOf } from "./address.js";
import { ask, post, Refusal } from "./api.js";
import { MESH } from "./gather.js";
import { sortOf } from "./sort.js";

export const isMesh = (file) => MESH.test(file.name) || file.type.startsWith("model/");
const suffix = (file) => file.name.match(MESH)?.[1].toLowerCase();

export function filterOf(where) {
  const keys = Object.keys(where);
  return keys.length ? Object.fromEntries(keys.map((key) => [key, Array.isArray(where[key]) ? { in: where[key] } : where[key]])) : null;
}

// The least confidence that is asked for; null where nobody knows any.
export function least(asked) {
  const one = alone(asked);
  return !one || one.like ? null : asked.sure;
}

function options(asked, limit, offset) {
  const filter = filterOf(asked.where);
  const sure = least(asked);
  const { good, bad, diversity } = learns(asked) ? asked : nothing;
  const learned = { ...((good.length || bad.length) && { examples: { good, bad } }), ...(diversity && { diversity }) };
  return { target: asked.target, limit, ...(offset && { offset }), ...(filter && { filter }), ...(sure && { min_confidence: sure }), ...(asked.fold && { duplicates: "fold" }), ...(asked.asText.length && { as_text: asked.asText }), ...learned };
}

const dataUri = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result.replace(/^data:[^,]*,/, "data:application/octet-stream;base64,"));
  reader.onerror = () => reject(new Refusal(400, "unreadable", `${file.name} cannot be read.`));
  reader.readAsDataURL(file);
});

async function part(clue, uri) {
  const weight = weightOf(clue) === 1 ? {} : { weight: weightOf(clue) };
  if (clue.words) return { text: clue.words, ...weight };
  if (clue.like) return { id: clue.like, ...weight };
  const file = fileOf(clue);
  const known = isMesh(file) ? { mesh: await uri(file), mesh_format: suffix(file) } : { image: await uri(file) };
  return { ...known, ...weight };
}

// One clue by itself, for resources that take no weights.
export async function partOf(clue) {
  const { weight: _, ...one } = await part(clue, dataUri);
  return one;
}

export const alone = ({ clues }) => (clues.length === 1 && weightOf(clues[0]) === 1 ? clues[0] : null);

export function form(asked, file, limit, offset) {
  const body = new FormData();
  body.append(isMesh(file) ? "mesh" : "image", file);
  for (const [name, value] of Object.entries(options(asked, limit, offset)))
    body.append(name, typeof value === "object" ? JSON.stringify(value) : value);
  return body;
}

// A search as one JSON body; `uri` makes texts of files.
export async function bodyOf(asked, limit, uri = dataUri) {
  const one = alone(asked);
  const asks = one ? await part(one, uri) : { mix: await Promise.all(asked.clues.map((clue) => part(clue, uri))) };
  return { ...asks, ...options(asked, limit) };
}

// What is found, for counting; files are too much to be sent once more.
export async function found(asked, best) {
  if (!asked.clues.length || asked.clues.some((clue) => clue.key)) return null;
  const { filter: _, limit: __, duplicates: ___, ...query } = await bodyOf({ ...asked, where: {} }, best);
  return { query, best };
}

// Where a question goes, and its body.
export async function request(asked, limit, uri) {
  const { clues, where } = asked;
  const like = alone(asked)?.like;
  const sort = sortOf(asked);
  if (!clues.length) return ["/items/scroll", { limit, filter: filterOf(where), ...(sort && { sort }) }];
  return like ? [`/items/${encodeURIComponent(like)}/similar`, options(asked, limit)] : ["/search", await bodyOf(asked, limit, uri)];
}

export async function search(asked, limit, offset, signal) {
  const one = alone(asked);
  if (one?.key) return ask(`${root()}/search`, { method: "POST", body: form(asked, fileOf(one), limit, offset), signal });
  const [path, body] = await request(asked, limit);
  return post(root() + path, { ...body, ...(offset && { offset }) }, signal);
}

// Items without a question, in the shape of hits; `after` is the `next` of the page before.
export async function browse(asked, limit, after, signal) {
  const [path, body] = await request(asked, limit);
  const page = await post(root() + path, { ...body, after }, signal);
  const face = (seen) => seen.find((one) => one.kind === "view") ?? seen.find((one) => one.url) ?? seen[0];
  const hits = page.items.map(({ id, payload, observations }) => ({ id, payload, score: null, matched: face(observations) }));
  return { hits, next: page.next };
}

// Bytes that the service will have to read.
export function weightInBytes(asked) {
  const bytes = asked.clues.reduce((sum, clue) => sum + (clue.key ? fileOf(clue).size : 0), 0);
  return alone(asked) ? bytes : (bytes * 4) / 3;
}
