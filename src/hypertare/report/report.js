"use strict";
// Draws every chart that is not folded away, one after the other from the top: also in a frame, on paper and
// in a picture of the page, where nobody scrolls. Draws them again when the page turns dark or light.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map();
  let paper = false;

  const isDark = () => dark.matches && !paper;

  // A phone has no room for long names beside a chart, nor for charts or a legend's names beside each other.
  const isNarrow = () => document.documentElement.clientWidth < 640;

  function config() {
    const base = isDark() ? data.dark : data.light;
    if (!isNarrow()) return base;
    return {
      ...base,
      axisY: { ...base.axisY, labelLimit: 120 },
      legend: { ...base.legend, columns: 1, labelLimit: 220 },
    };
  }

  // The trials of a cell stand in the page once, by columns; a chart takes those that have its response.
  function rows({ of, response }) {
    const all = data.trials[of];
    return all.values[response].flatMap((value, at) =>
      value === null
        ? []
        : {
            value,
            platform: all.platforms[all.platform[at]],
            kind: all.kinds[all.kind[at]],
            trial: all.trial[at],
            block: all.block[at],
            boot: all.boot[at],
            order: all.order[at],
          },
    );
  }

  function whole(chart) {
    const { usermeta, ...rest } = chart;
    const fitted = isNarrow()
      ? JSON.parse(JSON.stringify(rest), (name, value) => (name === "columns" ? 1 : value))
      : rest;
    return usermeta?.trials ? { ...fitted, datasets: { trials: rows(usermeta.trials) } } : fitted;
  }

  async function draw(element) {
    const own = Symbol("drawing");
    drawn.get(element)?.view?.finalize();
    drawn.set(element, { own });
    const result = await vegaEmbed(element, whole(data.charts[element.dataset.chart]), {
      mode: "vega-lite",
      actions: false,
      ast: true,
      renderer: "svg",
      tooltip: { theme: isDark() ? "dark" : "light" },
      config: config(),
    });
    if (drawn.get(element)?.own !== own) {
      result.view.finalize();
      return;
    }
    drawn.set(element, { own, view: result.view });
    element.dataset.drawn = "yes";
  }

  const charts = [...document.querySelectorAll("[data-chart]")];
  const isFolded = (element) => element.closest("details:not([open])") !== null;

  async function drawShown() {
    for (const element of charts) {
      if (!isFolded(element) && !drawn.has(element)) await draw(element);
    }
  }

  // A table keeps its columns where they fit; see `.tight` and `.stacked` in `report.css`.
  const boxes = [...document.querySelectorAll(".wide")];
  const tables = new Map(boxes.map((box) => [box, box.querySelector("table")]));

  function nameCells(table) {
    const names = [...(table.tHead?.rows[0].cells ?? [])].map((cell) => cell.textContent);
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, at) => at && names[at] && (cell.dataset.column = names[at]));
    }
  }

  function fitTables() {
    let wide = boxes.filter((box) => box.checkVisibility());
    wide.forEach((box) => tables.get(box).classList.remove("tight", "stacked"));
    for (const shape of ["tight", "stacked"]) {
      wide = wide.filter((box) => box.scrollWidth > box.clientWidth);
      for (const box of wide) {
        tables.get(box).classList.add(shape);
        if (shape === "stacked") nameCells(tables.get(box));
      }
    }
  }
  addEventListener("resize", fitTables);
  fitTables();

  document.addEventListener("toggle", fitTables, true);
  document.addEventListener("toggle", drawShown, true);
  // A link to what is folded away unfolds it.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();
  drawShown();

  const again = () => [...drawn.keys()].forEach(draw);
  dark.addEventListener("change", again);
  // Paper gets what is unfolded, on white.
  window.addEventListener("beforeprint", () => {
    paper = true;
    if (dark.matches) again();
  });
  window.addEventListener("afterprint", () => {
    paper = false;
    if (dark.matches) again();
  });
})();
