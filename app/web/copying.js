// Copies a text, also where the browser gives pages no clipboard (plain http).

import { h, icon } from "./dom.js";

async function copy(text, near) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "hidden", readonly: true }, text);
    near.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    near.focus();
  }
}

export function copier(label, text) {
  const said = h("span", { "aria-live": "polite" }, label);
  const button = h("button", { class: "copy", onclick: async () => {
    await copy(await text(), button);
    said.textContent = "Copied";
    setTimeout(() => { said.textContent = label; }, 1500);
  } }, icon("copy"), said);
  return button;
}
