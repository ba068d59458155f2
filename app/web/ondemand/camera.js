// A camera that goes round a thing in the unit ball and always looks at its middle.

const FIELD = (40 * Math.PI) / 180;
const START = { turn: 0.6, rise: 0.35, near: 3.02 }; // from which the whole ball is in the picture
const STEEPEST = 1.55, NEAREST = 1.15, FURTHEST = 9;
const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

export function orbit() {
  const camera = { ...START, watchers: new Set() };
  const tell = () => camera.watchers.forEach((watcher) => watcher());
  camera.move = (turn, rise) => {
    camera.turn += turn;
    camera.rise = clamp(camera.rise + rise, -STEEPEST, STEEPEST);
    tell();
  };
  camera.zoom = (factor) => {
    camera.near = clamp(camera.near * factor, NEAREST, FURTHEST);
    tell();
  };
  camera.reset = () => {
    Object.assign(camera, START);
    tell();
  };
  return camera;
}

// World to camera, and camera to picture, each as a column-major matrix.
export function matrices({ turn, rise, near }, aspect) {
  const [s, c, u, v] = [Math.sin(turn), Math.cos(turn), Math.sin(rise), Math.cos(rise)];
  const look = [c, -s * u, s * v, 0, 0, v, u, 0, -s, -c * u, c * v, 0, 0, 0, -near, 1];
  const scale = 1 / Math.tan(FIELD / 2) * Math.min(1, aspect), first = 0.02, last = near + 1.5;
  const depth = (first + last) / (first - last);
  const lens = [scale / aspect, 0, 0, 0, 0, scale, 0, 0, 0, 0, depth, -1, 0, 0, (2 * first * last) / (first - last), 0];
  return [look, lens];
}
