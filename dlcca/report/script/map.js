// The map: points in two or three coordinates on a canvas, a pointer that finds them, and a frame that selects them.

// A canvas that is as sharp as the screen, and redrawn when its size or the colours of the page change.
class Sheet {
  constructor(canvas, draw) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.draw = draw;
    this.waiting = false;
    new ResizeObserver(() => this.soon()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.soon());
  }

  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.now(); });
  }

  now() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const scale = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
    }
    const style = getComputedStyle(this.canvas);
    this.ink = style.color;
    this.soft = style.getPropertyValue("--soft").trim() || this.ink;
    this.faint = style.getPropertyValue("--line").trim() || this.ink;
    this.accent = style.getPropertyValue("--accent").trim() || this.ink;
    this.font = style.fontFamily;
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.pen.clearRect(0, 0, width, height);
    this.draw(this.pen, width, height);
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
}

class PointMap {
  constructor(canvas, state) {
    this.state = state;
    this.sheet = new Sheet(canvas, (pen, width, height) => this.paint(pen, width, height));
    this.frame = null;
    const count = state.data.time.length;
    this.x = new Float32Array(count);
    this.y = new Float32Array(count);
    this.depth = new Float32Array(count);
    this.order = shuffled(count);
    this.listen(canvas);
  }

  get inSpace() { return this.state.dims === 3; }

  // Where every point is on a sheet of this size.
  place(width, height) {
    const { axes, data } = this.state;
    const [X, Y, Z] = axes.map((a) => data.coordinates[a]);
    const [rx, ry, rz] = axes.map((a) => data.ranges[a]);
    const left = this.inSpace ? 12 : 46, bottom = this.inSpace ? 12 : 38, top = 12, right = 14;
    const w = width - left - right, h = height - top - bottom;
    if (!this.inSpace) {
      // One scale for both axes: a circle is to look like one.
      const unit = Math.min(w / (rx[1] - rx[0]), h / (ry[1] - ry[0]));
      const cx = (rx[0] + rx[1]) / 2, cy = (ry[0] + ry[1]) / 2;
      this.box = { left, top, w, h, unit, cx, cy };
      for (let i = 0; i < X.length; i++) {
        this.x[i] = left + w / 2 + (X[i] - cx) * unit;
        this.y[i] = top + h / 2 - (Y[i] - cy) * unit;
      }
      return;
    }
    const centre = [rx, ry, rz].map((r) => (r[0] + r[1]) / 2);
    let farthest = 0;
    for (let i = 0; i < X.length; i++) {
      const away = (X[i] - centre[0]) ** 2 + (Y[i] - centre[1]) ** 2 + (Z[i] - centre[2]) ** 2;
      if (away > farthest) farthest = away;
    }
    // However it is turned, every point stays on the sheet.
    const unit = Math.min(w, h) / 2 / (1.05 * Math.sqrt(farthest) || 1);
    this.box = { left, top, w, h, unit, rods: [rx, ry, rz].map((r) => (r[1] - r[0]) / 2) };
    const [a, b, c] = this.turned();
    for (let i = 0; i < X.length; i++) {
      const u = X[i] - centre[0], v = Y[i] - centre[1], t = Z[i] - centre[2];
      this.x[i] = left + w / 2 + unit * (a[0] * u + a[1] * v + a[2] * t);
      this.y[i] = top + h / 2 - unit * (b[0] * u + b[1] * v + b[2] * t);
      this.depth[i] = c[0] * u + c[1] * v + c[2] * t;
    }
    this.order.sort((i, j) => this.depth[i] - this.depth[j]);
  }

  // Rows of the rotation: across the sheet, up, and towards the eye. Coordinate "deep" points up when nothing is tilted.
  turned() {
    const yaw = (this.state.turn * Math.PI) / 180, pitch = (this.state.tilt * Math.PI) / 180;
    const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
    return [[cy, -sy, 0], [sp * sy, sp * cy, cp], [-cp * sy, -cp * cy, sp]];
  }

  paint(pen, width, height) {
    this.place(width, height);
    if (this.inSpace) this.paintRods(pen); else this.paintAxes(pen, width, height);
    const { coloring, chosen, any, data } = this.state;
    const few = data.time.length < 1500;
    const size = few ? 2.6 : 1.9;
    const put = (i, radius, color, alpha) => {
      pen.globalAlpha = alpha;
      pen.fillStyle = color;
      pen.beginPath();
      pen.arc(this.x[i], this.y[i], radius, 0, 2 * Math.PI);
      pen.fill();
    };
    // What is not selected, or has no colour, goes below.
    for (const i of this.order) {
      const color = coloring.color(i);
      if (Number.isNaN(this.x[i]) || (color !== null && (!any || chosen[i]))) continue;
      put(i, size - 0.5, color === null || any ? this.sheet.soft : color, color === null ? 0.15 : 0.22);
    }
    for (const i of this.order) {
      const color = coloring.color(i);
      if (Number.isNaN(this.x[i]) || (any && !chosen[i])) continue;
      if (color !== null) put(i, any ? size + 0.6 : size, color, 0.85);
      else if (any) put(i, size, this.sheet.ink, 0.5);
    }
    pen.globalAlpha = 1;
    if (this.state.marks) this.paintMarks(pen, size);
    this.paintCursor(pen);
    if (this.frame) {
      const [x0, y0, x1, y1] = this.frame;
      pen.strokeStyle = this.sheet.accent;
      pen.setLineDash([4, 3]);
      pen.strokeRect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
      pen.setLineDash([]);
    }
  }

  paintMarks(pen, size) {
    pen.strokeStyle = this.sheet.ink;
    pen.lineWidth = 1;
    // Of many landmarks the rings overlap, and would hide the colours of the points.
    pen.globalAlpha = Math.min(0.7, Math.max(0.08, 150 / this.state.data.landmarks.length));
    for (const i of this.state.data.landmarks) {
      pen.beginPath();
      pen.arc(this.x[i], this.y[i], size + 1.4, 0, 2 * Math.PI);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  paintCursor(pen) {
    const i = this.state.cursor;
    if (i === null || Number.isNaN(this.x[i])) return;
    pen.strokeStyle = this.sheet.ink;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(this.x[i], this.y[i], 7, 0, 2 * Math.PI);
    pen.stroke();
  }

  paintAxes(pen, width, height) {
    const { left, top, w, h, unit, cx, cy } = this.box;
    pen.strokeStyle = this.sheet.faint;
    pen.fillStyle = this.sheet.soft;
    pen.lineWidth = 1;
    pen.font = `12px ${this.sheet.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const step = niceStep((w / unit) / Math.max(4, w / 90));
    const lines = (centre, extent) => {
      const found = [];
      for (let v = Math.ceil((centre - extent / unit / 2) / step); v * step <= centre + extent / unit / 2; v++) found.push(v * step);
      return found;
    };
    for (const v of lines(cx, w)) {
      const x = left + w / 2 + (v - cx) * unit;
      pen.beginPath(); pen.moveTo(x, top); pen.lineTo(x, top + h); pen.stroke();
      pen.fillText(told(v), x, top + h + 5);
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const v of lines(cy, h)) {
      const y = top + h / 2 - (v - cy) * unit;
      pen.beginPath(); pen.moveTo(left, y); pen.lineTo(left + w, y); pen.stroke();
      pen.fillText(told(v), left - 6, y);
    }
    const [a, b] = this.state.axes;
    pen.fillStyle = this.sheet.ink;
    pen.textAlign = "center";
    pen.textBaseline = "bottom";
    pen.fillText(`coordinate ${a + 1}`, left + w / 2, height - 1);
    pen.save();
    pen.translate(1, top + h / 2);
    pen.rotate(-Math.PI / 2);
    pen.textBaseline = "top";
    pen.fillText(`coordinate ${b + 1}`, 0, 0);
    pen.restore();
  }

  paintRods(pen) {
    const { left, top, w, h, unit, rods } = this.box;
    const [a, b] = this.turned();
    pen.font = `12px ${this.sheet.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (let axis = 0; axis < 3; axis++) {
      const dx = a[axis] * unit * rods[axis], dy = -b[axis] * unit * rods[axis];
      const x = left + w / 2, y = top + h / 2;
      pen.strokeStyle = this.sheet.faint;
      pen.lineWidth = 1.5;
      pen.beginPath(); pen.moveTo(x - dx, y - dy); pen.lineTo(x + dx, y + dy); pen.stroke();
      pen.fillStyle = this.sheet.soft;
      pen.fillText(`coord. ${this.state.axes[axis] + 1}`, x + dx * 1.1, y + dy * 1.1);
    }
  }

  // The point nearest to a place on the sheet, if it is near enough.
  nearest(px, py, reach = 14) {
    let best = null, least = reach * reach;
    for (let i = 0; i < this.x.length; i++) {
      const dx = this.x[i] - px, dy = this.y[i] - py, d = dx * dx + dy * dy;
      if (d <= least) { least = d; best = i; }
    }
    return best;
  }

  listen(canvas) {
    let began = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      began = { at: this.sheet.at(event), turn: this.state.turn, tilt: this.state.tilt };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = this.sheet.at(event);
      if (!began) return this.state.point(this.nearest(x, y), "map");
      const [x0, y0] = began.at;
      if (this.inSpace && this.state.drag === "turn") {
        this.state.turnTo(began.turn + (x - x0) / 2, began.tilt + (y - y0) / 2);
      } else {
        this.frame = [x0, y0, x, y];
        this.sheet.soon();
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      const frame = this.frame;
      began = this.frame = null;
      if (frame && Math.abs(frame[2] - frame[0]) > 3 && Math.abs(frame[3] - frame[1]) > 3) this.choose(frame);
      else this.state.point(this.nearest(...this.sheet.at(event)), "map");
      this.sheet.soon();
    });
    canvas.addEventListener("pointercancel", () => { began = this.frame = null; this.sheet.soon(); });
    canvas.addEventListener("pointerleave", () => { if (!began) this.state.point(null, "map"); });
  }

  choose([x0, y0, x1, y1]) {
    const [left, right] = [Math.min(x0, x1), Math.max(x0, x1)], [up, down] = [Math.min(y0, y1), Math.max(y0, y1)];
    this.state.choose((i) => this.x[i] >= left && this.x[i] <= right && this.y[i] >= up && this.y[i] <= down, "on the map");
  }
}

// The numbers below a count in an order that is mixed, and always the same: late points must not hide early ones.
function shuffled(count) {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  let seed = 1;
  for (let i = count - 1; i > 0; i--) {
    seed = (seed * 48271) % 2147483647;
    const j = seed % (i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least);
}
