// Draws primitives with WebGL 2: base colours under light that is fixed to the camera, grey, or the edges over them.

import { edgesOf } from "./glb.js";

const PLACES = { POSITION: 0, NORMAL: 1, TEXCOORD_0: 2, COLOR_0: 3 };
const VERTEX = `#version 300 es
layout(location=0) in vec3 position;
layout(location=1) in vec3 normal;
layout(location=2) in vec2 uv;
layout(location=3) in vec4 color;
uniform mat4 look, lens;
out vec3 n, p;
out vec2 t;
out vec4 c;
void main(){
  vec4 seen = look * vec4(position, 1.);
  p = seen.xyz; n = mat3(look) * normal; t = uv; c = color;
  gl_Position = lens * seen;
}`;
const FRAGMENT = `#version 300 es
precision highp float;
in vec3 n, p;
in vec2 t;
in vec4 c;
uniform sampler2D picture;
uniform vec4 base;
uniform vec3 emissive;
uniform float cutoff, metallic;
uniform bool grey, unlit, lines;
out vec4 shown;
vec3 toSrgb(vec3 x){ return mix(12.92 * x, 1.055 * pow(x, vec3(1. / 2.4)) - .055, step(.0031308, x)); }
void main(){
  if (lines) { shown = vec4(.66, .3, .15, 1.); return; }
  vec4 albedo = base * c * texture(picture, t);
  if (albedo.a < cutoff) discard;
  if (grey) albedo = vec4(vec3(.5), 1.);
  vec3 eye = normalize(-p), side = normalize(n);
  if (dot(side, eye) < 0.) side = -side;
  float key = max(dot(side, normalize(vec3(-.45, .75, .6))), 0.), fill = max(dot(side, normalize(vec3(.8, .1, .5))), 0.);
  float gloss = grey ? 0. : pow(max(dot(reflect(-eye, side), normalize(vec3(-.45, .75, .6))), 0.), 24.) * mix(.04, .35, metallic);
  vec3 light = albedo.rgb * .9 * (.36 + .62 * key + .22 * fill) + gloss;
  shown = vec4(toSrgb(clamp((unlit && !grey ? albedo.rgb : light) + (grey ? vec3(0.) : emissive), 0., 1.)), albedo.a);
  shown.rgb *= shown.a;
}`;

function program(gl) {
  const made = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made) || "WebGL is lost");
  return made;
}

function buffer(gl, target, values) {
  const made = gl.createBuffer();
  gl.bindBuffer(target, made);
  gl.bufferData(target, values, gl.STATIC_DRAW);
  return made;
}

function texture(gl, sampled) {
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  if (!sampled) gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 1, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array([255, 255, 255, 255]));
  else {
    const set = (name, value) => gl.texParameteri(gl.TEXTURE_2D, name, value);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.SRGB8_ALPHA8, gl.RGBA, gl.UNSIGNED_BYTE, sampled.image);
    gl.generateMipmap(gl.TEXTURE_2D);
    set(gl.TEXTURE_WRAP_S, sampled.wrapS);
    set(gl.TEXTURE_WRAP_T, sampled.wrapT);
    set(gl.TEXTURE_MAG_FILTER, sampled.magFilter);
    set(gl.TEXTURE_MIN_FILTER, gl.LINEAR_MIPMAP_LINEAR);
  }
  return gl.getParameter(gl.TEXTURE_BINDING_2D);
}

function upload(gl, primitive, white) {
  const vertices = gl.createVertexArray();
  gl.bindVertexArray(vertices);
  for (const [name, { values, width, kind, normalized }] of Object.entries(primitive.arrays)) {
    buffer(gl, gl.ARRAY_BUFFER, values);
    gl.enableVertexAttribArray(PLACES[name]);
    gl.vertexAttribPointer(PLACES[name], width, kind, normalized, 0, 0);
  }
  const faces = buffer(gl, gl.ELEMENT_ARRAY_BUFFER, primitive.indices.values);
  gl.bindVertexArray(null);
  return { ...primitive, vertices, faces, edges: null, count: primitive.indices.values.length, look: primitive.texture ? texture(gl, primitive.texture) : white };
}

// What can draw the primitives on a canvas; null where there is no WebGL.
export function painter(canvas, primitives) {
  const gl = canvas.getContext("webgl2", { antialias: true, alpha: true });
  if (!gl) return null;
  const used = program(gl);
  const at = Object.fromEntries(["look", "lens", "base", "emissive", "cutoff", "metallic", "grey", "unlit", "lines"].map((name) => [name, gl.getUniformLocation(used, name)]));
  const white = texture(gl, null);
  const things = primitives.map((one) => upload(gl, one, white)).sort((one, other) => one.blend - other.blend);
  gl.useProgram(used);
  gl.enable(gl.DEPTH_TEST);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  gl.polygonOffset(1, 1);

  function outline(thing) {
    if (!thing.edges) {
      const ends = edgesOf(thing.indices);
      thing.edges = { ends: buffer(gl, gl.ELEMENT_ARRAY_BUFFER, ends), count: ends.length };
    }
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, thing.edges.ends);
    gl.uniform1i(at.lines, 1);
    gl.drawElements(gl.LINES, thing.edges.count, gl.UNSIGNED_INT, 0);
    gl.uniform1i(at.lines, 0);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, thing.faces);
  }

  function paint(look, lens, { grey, wire }) {
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix4fv(at.look, false, look);
    gl.uniformMatrix4fv(at.lens, false, lens);
    gl.uniform1i(at.grey, grey);
    for (const thing of things) {
      const through = thing.blend && !grey;
      gl.bindVertexArray(thing.vertices);
      gl.vertexAttrib4f(PLACES.COLOR_0, 1, 1, 1, 1);
      gl.bindTexture(gl.TEXTURE_2D, thing.look);
      gl.uniform4fv(at.base, thing.base);
      gl.uniform3fv(at.emissive, thing.emissive);
      gl.uniform1f(at.cutoff, thing.cutoff);
      gl.uniform1f(at.metallic, thing.metallic);
      gl.uniform1i(at.unlit, thing.unlit);
      (through ? gl.enable : gl.disable).call(gl, gl.BLEND);
      (wire ? gl.enable : gl.disable).call(gl, gl.POLYGON_OFFSET_FILL);
      gl.depthMask(!through);
      gl.drawElements(gl.TRIANGLES, thing.count, thing.indices.kind, 0);
      if (wire) outline(thing);
      gl.depthMask(true);
    }
    gl.bindVertexArray(null);
  }
  return { paint, close: () => gl.getExtension("WEBGL_lose_context")?.loseContext() };
}
