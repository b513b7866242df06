// The console's own script: charts and times. Everything else is HTML from the server and htmx.
(() => {
  "use strict";

  const COLOURS = ["#2f6fde", "#c2410c", "#15803d", "#9333ea", "#b45309", "#0e7490"];

  function drawChart(figure) {
    const { times, series } = JSON.parse(figure.dataset.chart);
    const style = getComputedStyle(figure);
    const colour = style.color;
    const grid = { stroke: style.borderTopColor, width: 1 };
    const axis = { stroke: colour, grid, ticks: grid };
    const lines = Object.keys(series).map((label, index) => ({
      label,
      stroke: COLOURS[index % COLOURS.length],
      width: 2,
    }));
    const size = () => ({ width: Math.max(200, figure.clientWidth - 16), height: 220 });
    const plot = new uPlot(
      { ...size(), series: [{}, ...lines], axes: [axis, { ...axis, label: figure.dataset.unit }] },
      [times, ...Object.values(series)],
    );
    figure.querySelector("figcaption").after(plot.root);
    new ResizeObserver(() => plot.setSize(size())).observe(figure);
  }

  function showTime(element) {
    const time = new Date(element.dateTime);
    const isToday = time.toDateString() === new Date().toDateString();
    element.textContent = isToday ? time.toLocaleTimeString() : time.toLocaleString();
    element.title = element.dateTime;
  }

  function enhance(root) {
    for (const figure of root.querySelectorAll("[data-chart]:not([data-drawn])")) {
      figure.dataset.drawn = "";
      drawChart(figure);
    }
    for (const element of root.querySelectorAll("time[datetime]:not([title])")) showTime(element);
  }

  document.addEventListener("DOMContentLoaded", () => enhance(document));
  document.addEventListener("htmx:after:swap", () => enhance(document));
})();
