"use strict";
// Draws each chart when it comes into view, again when the page turns dark or light.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map();

  // A phone has no room for long names beside a chart, nor for a legend in one line.
  function config() {
    const base = dark.matches ? data.dark : data.light;
    if (document.documentElement.clientWidth >= 640) return base;
    return {
      ...base,
      axisY: { ...base.axisY, labelLimit: 120 },
      legend: { ...base.legend, columns: 2, labelLimit: 130 },
    };
  }

  async function draw(element) {
    const own = Symbol("drawing");
    drawn.get(element)?.view?.finalize();
    drawn.set(element, { own });
    const result = await vegaEmbed(element, data.charts[element.dataset.chart], {
      actions: false,
      ast: true,
      renderer: "svg",
      tooltip: { theme: dark.matches ? "dark" : "light" },
      config: config(),
    });
    if (drawn.get(element)?.own !== own) {
      result.view.finalize();
      return;
    }
    drawn.set(element, { own, view: result.view });
    element.dataset.drawn = "yes";
  }

  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) {
          seen.unobserve(entry.target);
          draw(entry.target);
        }
      }
    },
    { rootMargin: "400px" },
  );
  const charts = [...document.querySelectorAll("[data-chart]")];
  charts.forEach((element) => seen.observe(element));

  dark.addEventListener("change", () => [...drawn.keys()].forEach(draw));
  // Paper gets every chart, on white, also those that were never in view.
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details.more").forEach((details) => (details.open = true));
  });
})();
