import { h, iconButton } from "../dom.js";

// A dialog of its own, gone when it is closed.
export function panel(title, content, attributes = {}) {
  const dialog = h("dialog", { class: "small", "aria-labelledby": "panel-title", ...attributes },
    h("div", { class: "panel", tabindex: "-1", autofocus: true }, h("h2", { id: "panel-title" }, title), ...content),
    iconButton("cross", "Close", () => dialog.close(), { class: "icon close" }));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
