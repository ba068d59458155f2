// Files come by choosing, dropping or pasting.

import { $ } from "./dom.js";

export function receive(take) {
  $("file").addEventListener("change", (event) => {
    const [file] = event.target.files;
    event.target.value = "";
    if (file) take(file);
  });
  addEventListener("paste", (event) => {
    const [file] = event.clipboardData?.files ?? [];
    if (!file) return;
    event.preventDefault();
    take(file);
  });
  let depth = 0;
  const over = (change) => {
    depth = Math.max(0, depth + change);
    $("drop").hidden = depth === 0;
  };
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => { if (carriesFiles(event)) over(1); });
  addEventListener("dragleave", (event) => { if (carriesFiles(event)) over(-1); });
  addEventListener("dragover", (event) => { if (carriesFiles(event)) event.preventDefault(); });
  addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    over(-depth);
    const [file] = event.dataTransfer.files;
    if (file) take(file);
  });
}
