// Dropped files become items: files that differ only in their ending are one.
// chairs/red.glb, chairs/red.jpg and chairs/red.txt (a caption a line) are the item chairs/red; chairs/red.json may say more:
// a caption, a list of them, or {"texts": […], "meta": {…}}.

import { Refusal } from "./api.js";
import { $ } from "./dom.js";

const accepted = $("file").accept.split(",").filter((one) => one.startsWith(".")); // as the service has filled it in
export const MESH = new RegExp(`[.](${accepted.map((suffix) => suffix.slice(1)).join("|")})$`, "i");
const KINDS = [["mesh", MESH], ["images", /\.(png|jpe?g|jpe|jfif|webp|gif|tiff?|bmp|avif|heic|heif|hif)$/i], ["texts", /\.txt$/i], ["notes", /\.json$/i]];

export const kindOf = (path) => KINDS.find(([, ending]) => ending.test(path))?.[0];
const hidden = (path) => path.split("/").some((part) => part.startsWith("."));

// What lies in dropped folders, with paths.
export async function unpack(items) {
  const entries = [...items].map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile()).filter(Boolean);
  const found = [];
  const walk = async (entry) => {
    if (entry instanceof File) return found.push({ path: entry.name, file: entry });
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      return found.push({ path: entry.fullPath.slice(1), file });
    }
    const reader = entry.createReader();
    const some = () => new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    for (let list = await some(); list.length; list = await some()) for (const inner of list) await walk(inner);
  };
  for (const entry of entries) await walk(entry);
  return found;
}

export const chosen = (list) => [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));

export function drafts(files) {
  const byId = new Map();
  const refused = [];
  for (const { path, file } of files) {
    const kind = kindOf(path);
    if (hidden(path)) continue;
    if (!kind) { refused.push({ name: path, why: "not a kind of file that can be added" }); continue; }
    const id = path.replace(/\.[^./]+$/, "");
    if (!byId.has(id)) byId.set(id, { id, mesh: [], images: [], texts: [], notes: [] });
    byId.get(id)[kind].push(file);
  }
  const all = [...byId.values()];
  for (const { id, mesh } of all) if (mesh.length > 1) refused.push({ name: id, why: "two meshes have this name; an item has one" });
  for (const { id, mesh, images, texts } of all)
    if (!mesh.length && !images.length && !texts.length) refused.push({ name: `${id}.json`, why: "there is no mesh, picture or text of this name" });
  const whole = all.filter(({ mesh, images, texts }) => mesh.length < 2 && mesh.length + images.length + texts.length);
  return { items: whole, refused };
}

const MARKS = { "255,254": "utf-16le", "254,255": "utf-16be" };

// The text in a file: as its mark says, as UTF-8, or else as Windows wrote it.
async function textOf(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const marked = MARKS[bytes.slice(0, 2)];
  if (marked) return new TextDecoder(marked).decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

const CAPTIONS = ["texts", "captions", "caption", "text"]; // as an ingest reads them

async function noted(file) {
  const unclear = (why) => new Refusal(422, "bad_notes", `${file.name} ${why}`);
  let said;
  try {
    said = JSON.parse(await textOf(file));
  } catch {
    throw unclear("is not JSON that can be read");
  }
  const fields = said?.constructor === Object ? said : { texts: said };
  const texts = [fields[CAPTIONS.find((key) => key in fields)] ?? []].flat();
  if (!texts.every((text) => typeof text === "string")) throw unclear("has captions that are no texts");
  return { texts, meta: fields.meta ?? {} };
}

export async function formOf({ mesh, images, texts, notes }) {
  const form = new FormData();
  for (const file of mesh) form.append("mesh", file);
  for (const file of images) form.append("images", file);
  for (const file of texts) for (const line of (await textOf(file)).split(/\r?\n/)) if (line.trim()) form.append("texts", line.trim());
  for (const file of notes) {
    const said = await noted(file);
    for (const text of said.texts) form.append("texts", text);
    form.append("payload", JSON.stringify(said.meta));
  }
  return form;
}

export const bytesOf = ({ mesh, images, texts, notes }) => [...mesh, ...images, ...texts, ...notes].reduce((sum, file) => sum + file.size, 0);
