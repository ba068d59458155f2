// Tags for the items that are selected, beside those that they have.

import * as api from "../api.js";
import { h } from "../dom.js";

async function tag(ids, words) {
  const wanted = words.split(",").map((one) => one.trim()).filter(Boolean);
  api.forget();
  for (const id of ids) {
    const { payload } = await api.item(id);
    await api.patch(id, { payload: { tags: [...new Set([payload.tags ?? []].flat().concat(wanted))] } });
  }
  return wanted;
}

// Asks for tags in `place`; `done` gets them when they are written.
export function ask(place, ids, done) {
  const field = h("input", { class: "field", "aria-label": "Tags, with commas between them", placeholder: "tag, another", required: true });
  const trouble = h("span", { class: "bad", role: "alert" });
  const send = (event) => {
    event.preventDefault();
    tag(ids, field.value).then(done, (error) => trouble.replaceChildren(error.message));
  };
  place.append(h("form", { class: "keyed", onsubmit: send }, field, h("button", { type: "submit", class: "solid" }, "Add"), trouble));
  field.focus();
}
