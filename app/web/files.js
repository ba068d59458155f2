// Files come by choosing, dropping or pasting: to search with or, while the collection is open, to be added.

import * as collection from "./collection.js";
import { $ } from "./dom.js";
import { say } from "./searching.js";

const MOST = 8; // files that a search takes at once

export function receive(ask) {
  const take = (files) => {
    if (files.length > MOST) say("Too many files", [`At most ${MOST} at once; these are ${files.length}.`], true);
    else ask(files);
  };
  $("file").addEventListener("change", (event) => {
    const files = [...event.target.files];
    event.target.value = "";
    if (files.length) take(files);
  });
  addEventListener("paste", (event) => {
    const files = [...event.clipboardData?.files ?? []];
    if (!files.length || collection.isOpen()) return;
    event.preventDefault();
    take(files);
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
    else take([...event.dataTransfer.files]);
  });
}
