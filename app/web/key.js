// The key of a service that wants one. The service keeps it in a cookie until the browser is closed; no script can read it.

import * as api from "./api.js";
import { $, h } from "./dom.js";

const NAME = "multifold-key"; // of the note what the key is called
let changed = () => {};
const noted = () => JSON.parse(sessionStorage.getItem(NAME) ?? "null");

// A field for a key; `then` is called once it is known to the service.
function keyForm(then = changed) {
  const field = h("input", { type: "password", class: "field", "aria-label": "Key", autocomplete: "off", required: true, placeholder: "Key" });
  const trouble = h("p", { class: "bad", role: "alert" });
  const enter = async (event) => {
    event.preventDefault();
    try {
      sessionStorage.setItem(NAME, JSON.stringify(await api.enter(field.value.trim())));
      then();
      changed();
    } catch (error) {
      trouble.textContent = error.message;
      field.select();
    }
  };
  return h("form", { class: "keyed", onsubmit: enter }, field, h("button", { type: "submit", class: "solid" }, "Use this key"), trouble);
}

// What is said where a key is missing, without how a program would send it.
export const demand = ({ message }, then) => ["This service wants a key", [`${message.split(":")[0]}. It is kept until the browser is closed.`, keyForm(then)], true];

async function forget() {
  await api.leave().catch(() => {});
  sessionStorage.removeItem(NAME);
  changed();
}

// In the panel of the collection, where the service has keys at all.
export function describe({ keys }) {
  const used = noted();
  $("key").hidden = !keys;
  $("key").replaceChildren(h("h3", {}, "Key"), used
    ? h("p", {}, `The key ${used.key} may ${used.scope}, until the browser is closed. `, h("button", { class: "link", onclick: forget }, "Forget it"))
    : keyForm());
}

export const listen = (onChange) => { changed = onChange; };
