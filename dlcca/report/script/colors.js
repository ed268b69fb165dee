// Colours of the points: of time, of a number in 255 steps, or of labels; and the legend that explains them.

const VIRIDIS = ["#45337d", "#355f8d", "#20928c", "#4cb96b", "#c9d434"];
const LABELS = ["#3d84d6", "#e0763a", "#3aa070", "#b466c8", "#c79a1e", "#d6566a", "#4ab3c4", "#8a7a5c", "#7d8ba1", "#999999"];

function parts(color) {
  return [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
}

// A table of 255 colours along some given ones.
function ramp(colors) {
  const stops = colors.map(parts);
  return Array.from({ length: 255 }, (_, i) => {
    const at = (i / 254) * (stops.length - 1);
    const k = Math.min(Math.floor(at), stops.length - 2);
    const mixed = stops[k].map((v, c) => Math.round(v + (stops[k + 1][c] - v) * (at - k)));
    return `rgb(${mixed.join(",")})`;
  });
}

// One way to colour the points: code[i] of every point, 255 where nothing is known.
class Coloring {
  constructor(given, data) {
    this.name = given.name;
    this.group = given.group;
    this.labels = given.labels || null;
    this.low = given.low;
    this.high = given.high;
    this.text = given.label || given.name;
    this.moments = given.moments || null;
    this.table = this.labels ? LABELS : ramp(given.colors || VIRIDIS);
    this.at = given.at;
    this.lazily = () => {
      if (given.codes) return given.codes;
      const values = unpacked(given.values, "u1");
      if (given.at !== "landmarks") return values;
      const codes = new Uint8Array(data.time.length).fill(255);
      data.landmarks.forEach((point, i) => { codes[point] = values[i]; });
      return codes;
    };
  }

  get codes() {
    if (!this._codes) this._codes = this.lazily();
    return this._codes;
  }

  color(i) {
    const code = this.codes[i];
    return code === 255 ? null : this.table[code % this.table.length];
  }

  value(i) {
    const code = this.codes[i];
    if (code === 255) return "not known here";
    if (this.labels) return this.labels[code];
    return told(this.low + (code / 254) * (this.high - this.low));
  }

  legend(place) {
    place.replaceChildren();
    if (this.labels) {
      const list = document.createElement("ul");
      this.labels.forEach((label, i) => {
        const item = document.createElement("li");
        const patch = document.createElement("span");
        patch.style.background = this.table[i % this.table.length];
        item.append(patch, label);
        list.append(item);
      });
      place.append(list);
      return;
    }
    const bar = document.createElement("div");
    bar.className = "bar";
    bar.style.background = `linear-gradient(to right, ${this.table.filter((_, i) => i % 23 === 0).join(",")})`;
    const ends = document.createElement("div");
    ends.className = "ends";
    for (const value of [this.low, this.high]) {
      const end = document.createElement("span");
      end.textContent = this.moments ? this.moments.told(value) : told(value);
      ends.append(end);
    }
    place.append(bar, ends);
  }
}

function timeColoring(data, moments, colors) {
  const width = moments.span || 1;
  const codes = Uint8Array.from(data.time, (t) => Math.round(254 * Math.min(1, Math.max(0, (t - moments.first) / width))));
  return new Coloring({ name: "time", group: "", codes, low: moments.first, high: moments.last, moments, colors, at: "rows" }, data);
}
