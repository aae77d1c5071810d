"use strict";
// As `format_ns` of bakeoff/units.py.
const time = ns => {
  if (ns === 0) return "0";
  const [limit, unit] = [[1e3, "ns"], [1e6, "µs"], [1e9, "ms"]].find(([limit]) => ns < 0.9995 * limit) || [1e12, "s"];
  const value = ns / (limit / 1e3);
  return `${value < 999.5 ? Number(value.toPrecision(3)) : value.toFixed(0)} ${unit}`;
};
for (const flame of document.querySelectorAll(".flame")) {
  const functions = JSON.parse(flame.dataset.functions), axis = Number(flame.dataset.axis);
  const says = flame.querySelector(".flame-says"), tools = flame.querySelector(".flame-tools");
  const search = tools.querySelector("input"), whole = tools.querySelector("button");
  const labels = [...flame.querySelectorAll(".flame-side")].map(each => each.textContent.trim().replace(/: [^:]*$/, ""));
  const graphs = [...flame.querySelectorAll(".frames")];
  const sides = graphs.map(graph => [...graph.querySelectorAll("i")].map(element => {
    const read = name => Number(element.style.getPropertyValue(name));
    const frame = {element, f: Number(element.dataset.f), x: read("--x"), w: read("--w"), y: read("--y")};
    element.textContent = functions[frame.f][0];
    return frame;
  }));
  const within = (inner, outer) => inner.x >= outer.x - 1e-3 && inner.x + inner.w <= outer.x + outer.w + 1e-3;
  const found = element => sides.flat().find(frame => frame.element === element);
  let at = null;

  function tell(frame) {
    const [name, a, b] = functions[frame.f];
    const change = b - a;
    says.textContent = `${name}: ${time(frame.w / 100 * axis)} an event here; in all ${labels[0]} ${time(a)}, ${labels[1]} ${time(b)} ` +
      `(${change < 0 ? "−" : "+"}${time(Math.abs(change))})`;
  }
  function go(frame) {
    if (at) at.element.classList.remove("at");
    at = frame;
    frame.element.classList.add("at");
    tell(frame);
  }
  // Both sides by one factor, so that widths stay comparable; the other side shows the function where it takes most there.
  function zoom(frame) {
    const chosen = sides.map(side => side.includes(frame) ? frame :
      side.filter(each => each.f === frame.f).sort((one, other) => other.w - one.w)[0]);
    const z = 100 / Math.max(...chosen.map(each => each ? each.w : 0));
    sides.forEach((side, place) => {
      const centre = chosen[place];
      graphs[place].style.setProperty("--z", centre ? z : 1);
      graphs[place].style.setProperty("--x0", centre ? centre.x : 0);
      for (const each of side) each.element.classList.toggle("dim", Boolean(centre) && each.y < centre.y && within(centre, each));
    });
    go(frame);
  }
  function reset() {
    for (const graph of graphs) { graph.style.setProperty("--z", 1); graph.style.setProperty("--x0", 0); }
    for (const each of sides.flat()) each.element.classList.remove("dim");
  }
  function look() {
    const wanted = search.value.trim().toLowerCase();
    const sums = sides.map(side => {
      let sum = 0, covered = [];
      for (const each of side) each.hit = wanted !== "" && functions[each.f][0].toLowerCase().includes(wanted);
      for (const each of [...side].sort((one, other) => one.y - other.y)) {
        each.element.classList.toggle("hit", each.hit);
        if (each.hit && !covered.some(outer => within(each, outer))) { covered.push(each); sum += each.w; }
      }
      return sum / 100 * axis;
    });
    says.textContent = wanted === "" ? "" : `“${search.value.trim()}”, with all it calls: ${labels[0]} ${time(sums[0])}, ${labels[1]} ${time(sums[1])} an event`;
  }
  function step(side, key) {
    if (!side.includes(at)) return go(side[0]);
    const row = side.filter(each => each.y === at.y).sort((one, other) => one.x - other.x), place = row.indexOf(at);
    const next = {
      ArrowRight: () => row[place + 1],
      ArrowLeft: () => row[place - 1],
      ArrowUp: () => side.find(each => each.y === at.y - 1 && within(at, each)),
      ArrowDown: () => side.filter(each => each.y === at.y + 1 && within(each, at)).sort((one, other) => other.w - one.w)[0],
    }[key]();
    if (next) go(next);
  }

  graphs.forEach((graph, place) => {
    graph.addEventListener("click", event => { const frame = found(event.target); if (frame) zoom(frame); });
    graph.addEventListener("mouseover", event => { const frame = found(event.target); if (frame) tell(frame); });
    graph.addEventListener("focus", () => { if (sides[place].length && !sides[place].includes(at)) go(sides[place][0]); });
    graph.addEventListener("keydown", event => {
      if (event.key.startsWith("Arrow") && sides[place].length) step(sides[place], event.key);
      else if (event.key === "Enter" && at) zoom(at);
      else if (event.key === "Escape") reset();
      else return;
      event.preventDefault();
    });
  });
  search.addEventListener("input", look);
  whole.addEventListener("click", reset);
  tools.hidden = false;
}
