// Moments in words, as the rest of the page tells them.

class Moments {
  constructor({ form, zero, first, last, label }) {
    Object.assign(this, { form, zero, first, last, label });
    this.span = last - first;
  }

  told(time) {
    if (this.form === "sample") return `row ${counted(time)}`;
    if (this.form === "s") return `${time.toFixed(this.span < 60 ? 2 : 1)} s`;
    if (this.form === "h:min") return hours(time, this.span < 14400);
    const at = new Date(this.zero + 1000 * time);
    const clock = at.toISOString().slice(11, this.span < 3600 ? 19 : 16);
    return this.form === "clock" ? clock : `${this.day(at)} ${clock}`;
  }

  // As exact as a row can be told.
  exact(time) {
    if (this.form === "sample" || this.form === "s") return this.told(time);
    if (this.form === "h:min") return hours(time, true);
    const at = new Date(this.zero + 1000 * time);
    const clock = at.toISOString().slice(11, 19);
    return this.form === "clock" ? clock : `${this.day(at)} ${clock}`;
  }

  day(at) {
    return at.toLocaleDateString("en-GB", { day: "2-digit", month: "short", timeZone: "UTC" });
  }

  // Round moments for an axis, no more than fit.
  ticks(most) {
    const least = this.span / Math.max(1, most);
    let step;
    if (this.form === "s" || this.form === "sample") {
      const power = 10 ** Math.floor(Math.log10(least));
      step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least);
    } else {
      const usual = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
      step = usual.find((s) => s >= least) || 86400 * Math.ceil(least / 86400);
    }
    if (!(step > 0)) return [];
    const offset = this.zero === null ? 0 : this.zero / 1000;
    const found = [];
    for (let t = Math.ceil((this.first + offset) / step) * step - offset; t <= this.last; t += step) found.push(t);
    return found.map((t) => ({ time: t, text: this.tick(t, step) }));
  }

  tick(time, step) {
    if (this.form === "s" || this.form === "sample") return Number(time.toPrecision(6)).toString();
    if (this.form === "h:min") return hours(time, step < 60);
    const at = new Date(this.zero + 1000 * time);
    if (step >= 86400) return this.day(at);
    return at.toISOString().slice(11, step < 60 ? 19 : 16);
  }
}

function hours(time, seconds) {
  const whole = Math.round(Math.abs(time));
  const two = (x) => String(x).padStart(2, "0");
  const text = `${time < 0 ? "−" : ""}${Math.floor(whole / 3600)}:${two(Math.floor((whole % 3600) / 60))}`;
  return seconds ? `${text}:${two(whole % 60)}` : text;
}

const pageMoments = new Moments(JSON.parse(document.querySelector("script.moments").textContent));
