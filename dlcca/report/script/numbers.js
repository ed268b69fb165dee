// Typed arrays out of base64, and numbers as text.

const KINDS = { u1: Uint8Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };

function unpacked(text, kind) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new KINDS[kind](bytes.buffer);
}

function told(value) {
  if (!Number.isFinite(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) return value.toExponential(2);
  return Number(value.toPrecision(4)).toString().replace("-", "−");
}

function counted(value) {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function percent(share) {
  const value = 100 * share;
  return `${value >= 10 || value === 0 ? value.toFixed(0) : value.toPrecision(2)} %`;
}

// Smallest and largest of what is finite, with a little room.
function range(values, room = 0.04) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!(low <= high)) return [0, 1];
  const more = room * (high - low || 1);
  return [low - more, high + more];
}

// The number of entries of a rising array that are below a value.
function below(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}
