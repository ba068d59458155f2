// Files come by choosing, dropping or pasting: to search with or, while the collection is open, to be added.

import * as collection from "./collection.js";
import { $ } from "./dom.js";

const MOST = 8; // files of one drop that become clues

export function receive(take) {
  $("file").addEventListener("change", (event) => {
    const files = [...event.target.files];
    event.target.value = "";
    files.slice(0, MOST).forEach(take);
  });
  addEventListener("paste", (event) => {
    const [file] = event.clipboardData?.files ?? [];
    if (!file || collection.isOpen()) return;
    event.preventDefault();
    take(file);
  });
  let depth = 0;
  const over = (change) => {
    depth = Math.max(0, depth + change);
    $("drop").hidden = depth === 0 || collection.isOpen();
    $("zone").classList.toggle("over", depth > 0);
  };
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => { if (carriesFiles(event)) over(1); });
  addEventListener("dragleave", (event) => { if (carriesFiles(event)) over(-1); });
  addEventListener("dragover", (event) => { if (carriesFiles(event)) event.preventDefault(); });
  addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    over(-depth);
    if (collection.isOpen()) collection.take(event.dataTransfer);
    else [...event.dataTransfer.files].slice(0, MOST).forEach(take);
  });
}
