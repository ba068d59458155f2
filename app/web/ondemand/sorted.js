// The best results of a search in another order than its own.

import { item } from "../api.js";
import { nameOf } from "../dom.js";
import { NUMBER } from "../sort.js";

// The numbers of a dotted key, as the service knows them.
const numbers = (payload, key) => [key.split(".").reduce((at, part) => at?.[part], payload)].flat().filter((one) => typeof one === "number");

// Hits in the chosen order; those without the number come last.
export async function sorted(hits, sort) {
  const [, down, key] = sort.match(NUMBER) ?? [];
  if (!key) {
    await Promise.all(hits.map(async (hit) => { hit.observations = (await item(hit.id).catch(() => hit)).observations; }));
    return hits.toSorted((one, other) => nameOf(one).localeCompare(nameOf(other), "en", { numeric: true }));
  }
  const rank = ({ payload }) => (down ? -Math.max(...numbers(payload, key)) : Math.min(...numbers(payload, key)));
  return hits.toSorted((one, other) => (rank(one) > rank(other)) - (rank(one) < rank(other)));
}
