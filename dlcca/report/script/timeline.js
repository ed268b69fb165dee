// The time-line: the coordinates of the map over time, strength, what was left out, and what is selected.

class TimeLine {
  constructor(canvas, state) {
    this.state = state;
    this.canvas = canvas;
    this.sheet = new Sheet(canvas, (pen, width, height) => this.paint(pen, width, height));
    this.frame = null;
    this.listen(canvas);
  }

  get lanes() {
    const { axes, dims, data } = this.state;
    const shown = [...new Set(axes.slice(0, dims))].sort();
    const lanes = shown.map((a) => ({ kind: "coordinate", axis: a, name: `coord. ${a + 1}` }));
    if (data.strength) lanes.push({ kind: "strength", name: "strength" });
    return lanes;
  }

  x(time) {
    const { moments } = this.state;
    return this.left + ((time - moments.first) / (moments.span || 1)) * this.width;
  }

  time(x) {
    const { moments } = this.state;
    const share = Math.min(1, Math.max(0, (x - this.left) / this.width));
    return moments.first + share * moments.span;
  }

  paint(pen, width, height) {
    this.left = width < 520 ? 58 : 74;
    this.width = width - this.left - 10;
    this.bottom = height - 34;
    const lanes = this.lanes, gap = 8, band = 10;
    const tall = (this.bottom - band - 4 - gap * lanes.length) / lanes.length;
    pen.font = `12px ${this.sheet.font}`;
    this.paintSelection(pen, 0, this.bottom);
    this.paintLeftOut(pen);
    lanes.forEach((lane, i) => {
      const top = 2 + i * (tall + gap);
      pen.fillStyle = this.sheet.ink;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      pen.fillText(lane.name, this.left - 8, top + tall / 2);
      if (lane.kind === "coordinate") this.paintCoordinate(pen, lane.axis, top, tall);
      else this.paintStrength(pen, top, tall);
    });
    this.paintBand(pen, this.bottom - band, band);
    this.paintTicks(pen, height);
    this.paintCursor(pen);
  }

  paintCoordinate(pen, axis, top, tall) {
    const { data, any, chosen } = this.state;
    const { begin, end, low, high } = data.stretches;
    const [bottom, roof] = data.ranges[axis];
    const y = (v) => top + tall - ((v - bottom) / (roof - bottom)) * tall;
    const color = data.lineColors[axis % data.lineColors.length];
    pen.strokeStyle = color;
    pen.lineWidth = 1.2;
    pen.lineJoin = "round";
    pen.globalAlpha = any ? 0.45 : 1;
    if (data.hasClock) {
      pen.beginPath();
      let drawing = false;
      for (let i = 0; i < begin.length; i++) {
        if (Number.isNaN(low[axis][i])) { drawing = false; continue; }
        const x = this.x((begin[i] + end[i]) / 2);
        if (drawing) pen.lineTo(x, y(low[axis][i])); else pen.moveTo(x, y(low[axis][i]));
        pen.lineTo(x, y(high[axis][i]) - 0.01);
        drawing = true;
      }
      pen.stroke();
    } else {
      this.dots(pen, axis, y, color, () => true, 1, 0.4);
    }
    pen.globalAlpha = 1;
    if (any) this.dots(pen, axis, y, null, (i) => chosen[i], 2.1, 0.9);
  }

  dots(pen, axis, y, color, wanted, radius, alpha) {
    const { data, coloring } = this.state;
    const values = data.coordinates[axis];
    pen.globalAlpha = alpha;
    for (let i = 0; i < values.length; i++) {
      if (!wanted(i) || Number.isNaN(values[i])) continue;
      pen.fillStyle = color || coloring.color(i) || this.sheet.ink;
      pen.beginPath();
      pen.arc(this.x(data.time[i]), y(values[i]), radius, 0, 2 * Math.PI);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  paintStrength(pen, top, tall) {
    const { time, value, chance } = this.state.data.strength;
    const roof = Math.max(1, ...value.filter(Number.isFinite));
    const y = (v) => top + tall - (v / roof) * tall;
    if (chance !== null) {
      pen.fillStyle = this.state.data.lineColors[1];
      pen.globalAlpha = 0.18;
      pen.fillRect(this.left, y(chance), this.width, y(0) - y(chance));
      pen.globalAlpha = 1;
    }
    pen.strokeStyle = this.sheet.ink;
    pen.lineWidth = 1.2;
    pen.beginPath();
    let drawing = false;
    for (let i = 0; i < time.length; i++) {
      if (Number.isNaN(value[i])) { drawing = false; continue; }
      if (drawing) pen.lineTo(this.x(time[i]), y(value[i])); else pen.moveTo(this.x(time[i]), y(value[i]));
      drawing = true;
    }
    pen.stroke();
  }

  // Stretches without a valid row.
  paintLeftOut(pen) {
    const { begin, end, leftOut } = this.state.data.stretches;
    pen.fillStyle = this.sheet.soft;
    for (let i = 0; i < begin.length; i++) {
      if (!leftOut[i]) continue;
      pen.globalAlpha = 0.18 * leftOut[i];
      const x = this.x(begin[i]);
      pen.fillRect(x, 0, Math.max(1, this.x(end[i]) - x), this.bottom);
    }
    pen.globalAlpha = 1;
  }

  // The colours of the map along time, so that they can be read here; where rows are selected, only theirs.
  paintBand(pen, top, tall) {
    const { data, coloring, any, chosen } = this.state;
    const width = Math.max(1.2, this.width / data.time.length + 0.6);
    for (let i = 0; i < data.time.length; i++) {
      const color = coloring.color(i);
      if (color === null || (any && !chosen[i])) continue;
      pen.fillStyle = color;
      pen.fillRect(this.x(data.time[i]) - width / 2, top, width, tall);
    }
  }

  paintSelection(pen, top, bottom) {
    const interval = this.frame ? this.frame.map((x) => this.time(x)).sort((a, b) => a - b) : this.state.interval;
    if (!interval) return;
    const [x0, x1] = interval.map((t) => this.x(t));
    pen.fillStyle = this.sheet.accent;
    pen.globalAlpha = 0.14;
    pen.fillRect(x0, top, x1 - x0, bottom - top);
    pen.globalAlpha = 0.8;
    pen.fillRect(x0 - 1, top, 2, bottom - top);
    pen.fillRect(x1 - 1, top, 2, bottom - top);
    pen.globalAlpha = 1;
  }

  paintTicks(pen, height) {
    pen.fillStyle = this.sheet.soft;
    pen.strokeStyle = this.sheet.faint;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const { time, text } of this.state.moments.ticks(Math.max(2, this.width / 90))) {
      const x = this.x(time);
      pen.beginPath(); pen.moveTo(x, this.bottom); pen.lineTo(x, this.bottom + 4); pen.stroke();
      pen.fillText(text, x, this.bottom + 6);
    }
    pen.textBaseline = "bottom";
    pen.fillStyle = this.sheet.ink;
    pen.fillText(this.state.moments.label, this.left + this.width / 2, height);
  }

  paintCursor(pen) {
    const { cursor, data } = this.state;
    if (cursor === null) return;
    const x = this.x(data.time[cursor]);
    pen.strokeStyle = this.sheet.ink;
    pen.lineWidth = 1.4;
    pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, this.bottom); pen.stroke();
  }

  // The drawn row nearest in time.
  nearest(x) {
    const { data } = this.state;
    const time = this.time(x), at = below(data.time, time);
    if (at === 0) return 0;
    if (at === data.time.length) return at - 1;
    return time - data.time[at - 1] <= data.time[at] - time ? at - 1 : at;
  }

  listen(canvas) {
    let began = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      began = this.sheet.at(event)[0];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x] = this.sheet.at(event);
      if (began !== null && Math.abs(x - began) > 3) {
        this.frame = [began, x];
        this.sheet.soon();
      }
      this.state.point(this.nearest(x), "line");
    });
    canvas.addEventListener("pointerup", () => {
      const frame = this.frame;
      began = this.frame = null;
      if (frame) this.state.chooseInterval(...frame.map((x) => this.time(x)).sort((a, b) => a - b));
      this.sheet.soon();
    });
    canvas.addEventListener("pointercancel", () => { began = this.frame = null; this.sheet.soon(); });
    canvas.addEventListener("pointerleave", () => { if (began === null) this.state.point(null, "line"); });
  }
}
