// Values of the lines of a still figure, told to a pointer or to the arrow keys.

function readable(block) {
  const svg = block.previousElementSibling;
  const { box: [left, top, width, height], xlim, unit, x, lines } = JSON.parse(block.textContent);
  const place = document.createElement("div");
  place.className = "reader";
  svg.replaceWith(place);
  place.append(svg);
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  place.append(tip);
  const rod = document.createElementNS(svg.namespaceURI, "line");
  rod.setAttribute("class", "rod");
  rod.setAttribute("y1", top);
  rod.setAttribute("y2", top + height);
  svg.append(rod);
  svg.setAttribute("tabindex", "0");
  let at = null;

  const show = (i) => {
    at = i;
    const share = (x[i] - xlim[0]) / (xlim[1] - xlim[0]);
    const px = left + share * width;
    rod.setAttribute("x1", px);
    rod.setAttribute("x2", px);
    rod.classList.add("seen");
    tip.hidden = false;
    const where = unit === "time" ? pageMoments.exact(x[i]) : `${told(x[i])} ${unit}`;
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const values = Object.entries(lines).map(([name, y]) => `${name}: ${y[i] === null ? "–" : told(y[i])}`);
    showTip(tip, [where, ...values], px * scale, top * scale);
  };
  const hide = () => { tip.hidden = true; rod.classList.remove("seen"); };

  svg.addEventListener("pointermove", (event) => {
    const frame = svg.getBoundingClientRect();
    const px = ((event.clientX - frame.left) / frame.width) * svg.viewBox.baseVal.width;
    if (px < left - 4 || px > left + width + 4) return hide();
    const value = xlim[0] + ((px - left) / width) * (xlim[1] - xlim[0]);
    let i = Math.min(x.length - 1, below(x, value));
    if (i > 0 && value - x[i - 1] < x[i] - value) i -= 1;
    show(i);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageUp: x.length / 20, PageDown: -x.length / 20 };
    if (event.key === "Escape") return hide();
    if (!(event.key in steps)) return;
    event.preventDefault();
    const step = Math.sign(steps[event.key]) * Math.max(1, Math.round(Math.abs(steps[event.key])));
    show(Math.max(0, Math.min(x.length - 1, at === null ? 0 : at + step)));
  });
}

document.querySelectorAll("script.reading").forEach(readable);

// What is wider than the page is scrolled, by keys too: then it can be reached by them, and has a name.
function scrollable(place) {
  const title = place.parentElement.querySelector("h2, h3");
  new ResizeObserver(() => {
    const needed = place.scrollWidth > place.clientWidth;
    const given = { tabindex: "0", role: "region", "aria-label": `${title ? title.textContent : "table"}, to be scrolled` };
    for (const [name, value] of Object.entries(given)) {
      if (needed) place.setAttribute(name, value); else place.removeAttribute(name);
    }
  }).observe(place);
}

document.querySelectorAll(".scroll").forEach(scrollable);
