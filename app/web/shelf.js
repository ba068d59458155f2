// The collections of this service: a choice between them where there are several.

import { current, go } from "./address.js";
import { collections } from "./api.js";
import { $, h } from "./dom.js";

export async function describe() {
  const found = (await collections()).filter((one) => !one.trouble);
  const value = (one) => (one.aliases.includes("default") ? "" : one.name);
  $("shelf").hidden = found.length < 2;
  $("shelf").replaceChildren(...found.map((one) => h("option", { value: value(one) }, one.name)));
  const chosen = found.find((one) => one.name === current().shelf || one.aliases.includes(current().shelf));
  $("shelf").value = chosen ? value(chosen) : "";
}

export function listen() {
  $("shelf").addEventListener("change", ({ target }) => go({ shelf: target.value, clues: [], where: {}, sort: "", all: false }));
}
