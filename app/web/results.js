// The grid: a card a hit, with the side that matched.

import * as api from "./api.js";
import { $, h, nameOf } from "./dom.js";

const AT_ONCE = 4;

function picture(hit) {
  const { kind, index, url } = hit.matched;
  const source = url ?? `/v1/items/${encodeURIComponent(hit.id)}/views/0`;
  const image = h("img", { src: source, alt: "", loading: "lazy", decoding: "async", width: 224, height: 224 });
  image.addEventListener("error", () => image.replaceWith("no picture"), { once: true });
  return h("span", { class: "picture" }, image, url ? h("span", { class: "mark" }, `${kind} ${index + 1}`) : null);
}

function card(hit, open) {
  const name = nameOf(hit.id, hit.payload);
  const score = hit.score.toFixed(3);
  const said = h("span", { class: "said", "data-item": hit.id }, hit.matched.text ? `“${hit.matched.text}”` : "");
  const top = h("span", { class: "top" }, h("span", {}, name), h("span", { class: "score", title: "index score: higher is closer" }, score));
  const button = h(
    "button",
    { type: "button", class: "card", "aria-label": `${name}, score ${score}`, onclick: () => open(hit) },
    picture(hit),
    h("span", { class: "words" }, top, said),
  );
  return h("li", {}, button);
}

// Shapes and photos do not say what they are: their items' first captions do, fetched a few at a time.
async function describe(list) {
  const silent = [...list.querySelectorAll(".said")].filter((said) => !said.textContent);
  const worker = async () => {
    for (let said = silent.shift(); said; said = silent.shift()) {
      const item = await api.item(said.dataset.item).catch(() => null);
      said.textContent = item?.observations.find((seen) => seen.kind === "caption")?.text ?? "";
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

export function show(hits, open) {
  const list = $("results");
  list.replaceChildren(...hits.map((hit) => card(hit, open)));
  list.removeAttribute("aria-busy");
  describe(list);
}

export function showBones(count = 12) {
  $("results").setAttribute("aria-busy", "true");
  $("results").replaceChildren(...Array.from({ length: count }, () => h("li", { class: "bones", "aria-hidden": "true" })));
}

export function clear() {
  $("results").removeAttribute("aria-busy");
  $("results").replaceChildren();
}
