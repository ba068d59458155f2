// What is asked as a command for a shell.

import { fileOf, root } from "../address.js";
import { alone, form, request } from "../question.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// The shell reads the files of a mix into a here-document.
export async function curl(asked, limit) {
  const one = alone(asked);
  const at = (path) => `curl -s ${quoted(location.origin + root() + path)}`;
  if (one?.key) {
    const fields = [...form(asked, fileOf(one), limit)].map(([name, value]) => `-F ${quoted(value.name ? `${name}=@"${value.name}"` : `${name}=${value}`)}`);
    return `${at("/search")} ${fields.join(" ")}`;
  }
  const names = [];
  const [path, asks] = await request(asked, limit, (file) => `\u0000${names.push(file.name) - 1}\u0000`);
  const body = JSON.stringify(asks);
  const start = `${at(path)} -H 'content-type: application/json' -d`;
  if (!names.length) return `${start} ${quoted(body)}`;
  const file = (_, place) => `data:application/octet-stream;base64,$(base64 -w0 ${quoted(names[place])})`;
  const escaped = body.replace(/[\\$`]/g, "\\$&").replace(/\\\\u0000(\d+)\\\\u0000/g, file);
  return `${start} @- <<END\n${escaped}\nEND`;
}
