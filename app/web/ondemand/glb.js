// Reads a GLB file as the service writes it: one mesh, each primitive with its material.

const TYPES = { 5126: Float32Array, 5123: Uint16Array, 5125: Uint32Array };
const WIDTHS = { SCALAR: 1, VEC2: 2, VEC3: 3, VEC4: 4 };
const MAGIC = 0x46546c67, JSON_CHUNK = 0x4e4f534a;

export async function readGlb(buffer) {
  const head = new DataView(buffer);
  if (head.getUint32(0, true) !== MAGIC || head.getUint32(16, true) !== JSON_CHUNK) throw new Error("not a GLB file");
  const size = head.getUint32(12, true);
  const said = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 20, size)));
  const start = 28 + size; // behind the head of the second chunk

  const bytes = (view) => [start + (said.bufferViews[view].byteOffset ?? 0), said.bufferViews[view].byteLength];
  const array = (place) => {
    const { bufferView, componentType, type, count, normalized = false } = said.accessors[place];
    return { values: new TYPES[componentType](buffer, bytes(bufferView)[0], count * WIDTHS[type]), width: WIDTHS[type], kind: componentType, normalized };
  };
  const picture = ({ bufferView, mimeType }) => {
    const [from, length] = bytes(bufferView);
    return createImageBitmap(new Blob([new Uint8Array(buffer, from, length)], { type: mimeType }), { premultiplyAlpha: "none", colorSpaceConversion: "none" });
  };
  const images = await Promise.all((said.images ?? []).map(picture));

  return said.meshes[0].primitives.map(({ attributes, indices, material }) => {
    const { pbrMetallicRoughness: base, emissiveFactor = [0, 0, 0], alphaMode = "OPAQUE", alphaCutoff = 0.5, extensions } = said.materials[material];
    const texture = base.baseColorTexture && said.textures[base.baseColorTexture.index];
    return {
      arrays: Object.fromEntries(Object.entries(attributes).map(([name, place]) => [name, array(place)])),
      indices: array(indices),
      base: base.baseColorFactor,
      metallic: base.metallicFactor,
      emissive: emissiveFactor,
      cutoff: alphaMode === "MASK" ? alphaCutoff : 0,
      blend: alphaMode === "BLEND",
      unlit: Boolean(extensions?.KHR_materials_unlit),
      texture: texture && { image: images[texture.source], ...said.samplers[texture.sampler] },
    };
  });
}

// Both ends of every edge, each edge once.
export function edgesOf({ values }) {
  const seen = new Set(), ends = [];
  const most = values.reduce((so, one) => Math.max(so, one), 0) + 1;
  for (let at = 0; at < values.length; at += 3) {
    for (let side = 0; side < 3; side += 1) {
      const one = values[at + side], other = values[at + ((side + 1) % 3)];
      const key = Math.min(one, other) * most + Math.max(one, other);
      if (seen.has(key)) continue;
      seen.add(key);
      ends.push(one, other);
    }
  }
  return Uint32Array.from(ends);
}
