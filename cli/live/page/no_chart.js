// In the place of Chart.js in a tool that was built without it: each chart is a line that says so.
"use strict";

class Chart {
  static defaults = {font: {}, plugins: {legend: {labels: {}}}};

  constructor(canvas, {data, options}) {
    this.data = data;
    options.plugins.legend.labels ??= {}; // as the defaults of Chart.js do
    this.options = options;
    const line = document.createElement("p");
    line.id = canvas.id; // a page that changes its colours makes its charts again
    line.textContent = "This Mailgrad was built without Chart.js, so it draws no charts. The tables have all figures.";
    canvas.replaceWith(line);
  }

  update() {}
  destroy() {}
}
