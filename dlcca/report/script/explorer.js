// The explorer: what is shown and selected, the controls, and the two drawings that follow.

class Explorer {
  constructor(place, given) {
    this.place = place;
    this.moments = pageMoments;
    this.data = this.read(given);
    this.dims = 2;
    this.axes = [0, 1, Math.min(2, this.data.coordinates.length - 1)];
    this.turn = -50;
    this.tilt = 22;
    this.drag = "turn";
    this.marks = false;
    this.cursor = null;
    this.interval = null;
    this.chosen = new Uint8Array(this.data.time.length);
    this.any = false;
    this.colorings = [timeColoring(this.data, this.moments, given.timeColors), ...this.numbers(given)];
    this.coloring = this.colorings[0];
    this.map = new PointMap(this.find("map"), this);
    this.line = new TimeLine(this.find("line"), this);
    this.controls();
    this.tell();
  }

  find(name) { return document.getElementById(name); }

  read(given) {
    const list = (texts, kind) => texts.map((text) => unpacked(text, kind));
    const s = given.stretches;
    const data = {
      hasClock: given.hasClock,
      rows: unpacked(given.rows, "u4"),
      time: unpacked(given.time, "f8"),
      coordinates: list(given.coordinates, "f4"),
      landmarks: unpacked(given.landmarks, "u4"),
      stretches: {
        begin: unpacked(s.begin, "f8"), end: unpacked(s.end, "f8"),
        low: list(s.low, "f4"), high: list(s.high, "f4"), leftOut: unpacked(s.leftOut, "f4"),
      },
      strength: given.strength && {
        time: unpacked(given.strength.time, "f8"), value: unpacked(given.strength.value, "f4"),
        chance: given.strength.chance, label: given.strength.label,
      },
      lineColors: given.lineColors,
    };
    data.ranges = data.coordinates.map((values) => range(values));
    return data;
  }

  numbers(given) {
    return given.colorings.map((coloring) => new Coloring(coloring, this.data));
  }

  controls() {
    const { coordinates, time } = this.data;
    for (const [k, name] of ["x", "y", "z"].entries()) {
      const list = this.find(`axis-${name}`);
      coordinates.forEach((_, i) => list.add(new Option(`coordinate ${i + 1}`, i, false, i === this.axes[k])));
      list.addEventListener("change", () => { this.axes[k] = Number(list.value); this.redraw(); });
    }
    if (coordinates.length < 3) this.find("dims").hidden = true;
    this.radios("dims", (value) => {
      this.dims = Number(value);
      this.place.classList.toggle("in-space", this.dims === 3);
      this.redraw();
    });
    this.radios("drag", (value) => { this.drag = value; });
    for (const name of ["turn", "tilt"]) {
      this.find(name).addEventListener("input", (event) => { this[name] = Number(event.target.value); this.map.sheet.soon(); });
    }
    this.colorControl();
    this.find("marks").addEventListener("change", (event) => { this.marks = event.target.checked; this.map.sheet.soon(); });
    const moment = this.find("moment");
    moment.max = time.length - 1;
    moment.addEventListener("input", () => this.point(Number(moment.value), "slider"));
    moment.addEventListener("focus", () => this.point(Number(moment.value), "slider"));
    for (const name of ["from", "to"]) this.find(name).addEventListener("input", () => this.sliders(name));
    this.find("similar").addEventListener("click", () => this.similar());
    this.find("clear").addEventListener("click", () => this.clear());
    this.place.addEventListener("keydown", (event) => { if (event.key === "Escape") this.clear(); });
    if (!this.data.hasClock) this.place.classList.add("no-clock");
  }

  radios(name, then) {
    for (const radio of this.place.querySelectorAll(`input[name="${name}"]`)) {
      radio.addEventListener("change", () => then(radio.value));
    }
  }

  colorControl() {
    const list = this.find("color"), groups = new Map();
    this.colorings.forEach((coloring, i) => {
      let parent = list;
      if (coloring.group) {
        if (!groups.has(coloring.group)) {
          const group = document.createElement("optgroup");
          group.label = coloring.group;
          groups.set(coloring.group, group);
          list.append(group);
        }
        parent = groups.get(coloring.group);
      }
      parent.append(new Option(coloring.text, i));
    });
    list.addEventListener("change", () => {
      this.coloring = this.colorings[Number(list.value)];
      this.coloring.legend(this.find("legend"));
      this.redraw();
    });
    this.coloring.legend(this.find("legend"));
  }

  redraw() {
    this.map.sheet.soon();
    this.line.sheet.soon();
  }

  turnTo(turn, tilt) {
    this.turn = ((turn + 540) % 360) - 180;
    this.tilt = Math.max(-90, Math.min(90, tilt));
    this.find("turn").value = this.turn;
    this.find("tilt").value = this.tilt;
    this.map.sheet.soon();
  }

  // A row that is pointed at, here or there; null for none.
  point(i, from) {
    if (i !== null && Number.isNaN(this.data.time[i])) i = null;
    this.cursor = i;
    this.redraw();
    this.tips(from);
    if (i === null) return;
    const moment = this.find("moment");
    if (from !== "slider") moment.value = i;
    const text = this.reading(i).join("; ");
    moment.setAttribute("aria-valuetext", text);
    this.find("reading").textContent = text;
  }

  // What is known of a row, in parts of a sentence.
  reading(i) {
    const { data, moments, coloring } = this;
    const lines = [moments.exact(data.time[i])];
    if (moments.form !== "sample") lines[0] += `, row ${counted(data.rows[i])}`;
    const shown = [...new Set(this.axes.slice(0, this.dims))].sort();
    for (const a of shown) lines.push(`coordinate ${a + 1}: ${told(data.coordinates[a][i])}`);
    if (coloring.name !== "time") lines.push(`${coloring.name}: ${coloring.value(i)}`);
    return lines;
  }

  tips(from) {
    const i = this.cursor;
    const places = { map: [this.find("map-tip"), this.map.x[i], this.map.y[i]] };
    places.line = [this.find("line-tip"), i === null ? 0 : this.line.x(this.data.time[i]), 14];
    for (const [name, [tip, x, y]] of Object.entries(places)) {
      tip.hidden = i === null || name !== from;
      if (!tip.hidden) showTip(tip, this.reading(i), x, y);
    }
  }

  // Select the points for which something holds.
  choose(holds, where, interval = null) {
    let count = 0;
    for (let i = 0; i < this.chosen.length; i++) {
      const known = !Number.isNaN(this.data.coordinates[0][i]);
      this.chosen[i] = known && holds(i) ? 1 : 0;
      count += this.chosen[i];
    }
    this.any = count > 0;
    this.interval = interval;
    this.where = where;
    const { first, span } = this.moments;
    const share = (t) => Math.round(1000 * Math.min(1, Math.max(0, (t - first) / (span || 1))));
    this.find("from").value = interval ? share(interval[0]) : 0;
    this.find("to").value = interval ? share(interval[1]) : 1000;
    this.told(interval);
    this.tell();
    this.redraw();
  }

  chooseInterval(from, to) {
    const { time } = this.data;
    this.choose((i) => time[i] >= from && time[i] <= to, "in time", [from, to]);
  }

  sliders(moved) {
    const from = this.find("from"), to = this.find("to");
    let a = Number(from.value), b = Number(to.value);
    if (a >= b) {
      if (moved === "from") a = b - 1; else b = a + 1;
    }
    const { first, span } = this.moments;
    this.chooseInterval(first + (span * a) / 1000, first + (span * b) / 1000);
  }

  told(interval) {
    const { first, last } = this.moments;
    const [a, b] = interval || [first, last];
    this.find("from").setAttribute("aria-valuetext", this.moments.told(a));
    this.find("to").setAttribute("aria-valuetext", this.moments.told(b));
  }

  // The twentieth of all points that lie nearest to the row of the slider, by all coordinates of the map.
  similar() {
    const at = this.cursor === null ? Number(this.find("moment").value) : this.cursor;
    const axes = [...new Set(this.axes.slice(0, this.dims))], { coordinates } = this.data;
    const distance = Float64Array.from(this.data.time, (_, i) =>
      axes.reduce((sum, a) => sum + (coordinates[a][i] - coordinates[a][at]) ** 2, 0));
    const known = Array.from(distance).filter((d) => !Number.isNaN(d)).sort((a, b) => a - b);
    const reach = known[Math.max(0, Math.floor(known.length / 20) - 1)];
    this.choose((i) => distance[i] <= reach, `like ${this.moments.exact(this.data.time[at])}`);
  }

  clear() {
    this.choose(() => false, "");
  }

  // The selection in words.
  tell() {
    const { chosen, data, moments } = this;
    const place = this.find("chosen");
    const which = Array.from(chosen.keys()).filter((i) => chosen[i]);
    if (!which.length) {
      place.textContent = "Nothing is selected.";
      this.told(null);
      return;
    }
    const total = data.coordinates[0].reduce((sum, v) => sum + (Number.isNaN(v) ? 0 : 1), 0);
    const [first, last] = [data.time[which[0]], data.time[which[which.length - 1]]];
    const means = [...new Set(this.axes.slice(0, this.dims))].sort().map((a) => {
      const mean = which.reduce((sum, i) => sum + data.coordinates[a][i], 0) / which.length;
      return `coordinate ${a + 1} is ${told(mean)} on average`;
    });
    place.textContent = `Selected ${this.where}: ${counted(which.length)} of ${counted(total)} points `
      + `(${percent(which.length / total)}), from ${moments.exact(first)} to ${moments.exact(last)}; ${means.join(", ")}.`;
  }
}

// A note beside a place, always within its card.
function showTip(tip, lines, x, y) {
  tip.replaceChildren(...lines.map((line) => {
    const part = document.createElement("div");
    part.textContent = line;
    return part;
  }));
  const room = tip.parentElement.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const onRight = x + 18 + own.width < room.width;
  tip.style.left = `${Math.max(4, onRight ? x + 18 : x - own.width - 8)}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 12, room.height - own.height - 4))}px`;
}

const explorerPlace = document.getElementById("explorer");
if (explorerPlace) {
  const block = explorerPlace.querySelector(".explorer-data");
  explorerPlace.hidden = false;
  document.documentElement.classList.add("scripted");
  window.dlcca = new Explorer(explorerPlace, JSON.parse(block.textContent));
}
