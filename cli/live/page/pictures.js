// Pictures of a run: what each shows, in colours that stay apart in grey, with dashes and markers.
"use strict";

const pictures = (() => {
  // As the style sheet has them for the scheme of this moment, light or dark.
  const colours = {};
  function take_colours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "quiet", "paper", "accent", "orange", "hatch", "yellow", "rest", "bar", "grid"])
      colours[name] = style.getPropertyValue("--" + name).trim();
    Chart.defaults.color = colours.quiet;
  }

  Chart.defaults.font.family = "system-ui, 'DejaVu Sans', sans-serif";
  Chart.defaults.animation = false;
  Chart.defaults.responsive = true;
  Chart.defaults.maintainAspectRatio = false;
  Chart.defaults.plugins.legend.labels.usePointStyle = true;
  Chart.defaults.plugins.legend.align = "end";

  const units = {time_s: "time [s]", updates: "updates", samples: "samples"};

  // Figures of any size in few digits.
  const short = (x) => {
    if (x === null || x === undefined) return "–";
    const big = Math.abs(x);
    if (big >= 1e9) return (x / 1e9).toPrecision(3) + " G";
    if (big >= 1e6) return (x / 1e6).toPrecision(3) + " M";
    if (big >= 1e4) return Math.round(x).toLocaleString("en");
    if (big !== 0 && big < 1e-3) return x.toExponential(1);
    return String(Number(x.toPrecision(3)));
  };

  // A pattern of lines, so that areas differ in grey as well.
  function hatched(colour, background, slope) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const draw = tile.getContext("2d");
    draw.fillStyle = background;
    draw.fillRect(0, 0, 8, 8);
    draw.strokeStyle = colour;
    draw.lineWidth = 1.5;
    for (const at of [-8, 0, 8]) {
      draw.beginPath();
      draw.moveTo(at, slope > 0 ? 8 : 0);
      draw.lineTo(at + 8, slope > 0 ? 0 : 8);
      draw.stroke();
    }
    return draw.createPattern(tile, "repeat");
  }

  // Vertical lines with a word each, such as switches of policy or an expected mean.
  const marks = {
    id: "marks",
    afterDatasetsDraw(chart, args, options) {
      const {ctx, chartArea: area, scales: {x}} = chart;
      ctx.save();
      for (const mark of options.list || []) {
        if (mark.at < x.min || mark.at > x.max) continue;
        const at = x.getPixelForValue(mark.at);
        ctx.strokeStyle = mark.colour || colours.ink;
        ctx.lineWidth = mark.width || 1.2;
        ctx.setLineDash(mark.dash || [2, 3]);
        ctx.beginPath();
        ctx.moveTo(at, area.top);
        ctx.lineTo(at, area.bottom);
        ctx.stroke();
        if (!mark.word) continue;
        ctx.fillStyle = colours.ink;
        ctx.font = "12px system-ui, 'DejaVu Sans', sans-serif";
        const right = at + 6 + ctx.measureText(mark.word).width > area.right;
        ctx.textAlign = right ? "right" : "left";
        ctx.fillText(mark.word, at + (right ? -5 : 5), area.top + 12);
      }
      ctx.restore();
    },
  };

  const axis = (text, more = {}) => ({
    title: {display: true, text}, grid: {color: colours.grid}, ticks: {callback: short, maxRotation: 0}, ...more,
  });

  function lines(id, label, datasets) {
    return new Chart(document.getElementById(id), {
      type: "line",
      data: {datasets},
      options: {
        parsing: false, normalized: true, spanGaps: true,
        interaction: {mode: "nearest", axis: "x", intersect: false},
        scales: {x: axis(units.time_s, {type: "linear", min: 0}), y: axis(label)},
        plugins: {marks: {list: []}, legend: {display: datasets.length > 1}},
      },
      plugins: [marks],
    });
  }

  const solid = () => ({data: [], borderColor: colours.accent, backgroundColor: colours.accent, borderWidth: 2,
    pointRadius: 0, pointStyle: "line"});
  const dashed = () => ({...solid(), borderColor: colours.orange, backgroundColor: colours.orange, borderDash: [6, 4]});
  const tested = () => ({data: [], borderColor: colours.orange, backgroundColor: colours.paper, borderWidth: 2,
    borderDash: [6, 4], pointStyle: "rectRot", pointRadius: 5, pointBorderWidth: 2});
  const held_out = () => ({...tested(), borderColor: colours.ink, borderDash: [2, 3], pointStyle: "triangle"});

  const known = (curve, field) => curve.filter((p) => typeof p[field] === "number");
  const points = (curve, across, field) => known(curve, field).map((p) => ({x: p[across], y: p[field]}));

  // The means of lines, each over the samples since the line before. A test brings a line at any moment, so of
  // two neighbours one may tell of few samples, and would throw the curve up or down: it joins the one before.
  function means(curve, across, field) {
    const lines = known(curve, field);
    let before = 0;
    const samples = lines.map((p) => { const n = p.samples - before; before = p.samples; return Math.max(1, n); });
    const few = [...samples].sort((a, b) => a - b)[Math.floor(samples.length / 2)] / 3;
    const near = lines.length > 0 ? (lines[lines.length - 1][across] - lines[0][across]) / 1000 : 0;
    const drawn = [];
    lines.forEach((p, i) => {
      const n = samples[i], last = drawn[drawn.length - 1];
      if (!last || (n >= few && p[across] - last.begin > near)) {
        drawn.push({x: p[across], y: p[field], begin: p[across], n});
        return;
      }
      last.y = (last.y * last.n + p[field] * n) / (last.n + n);
      last.n += n;
      last.x = p[across];
    });
    return drawn.map(({x, y}) => ({x, y}));
  }

  // Where a step lies on the axis, between the lines of metrics beside it.
  function at_step(curve, across, step) {
    let before = {steps: 0, [across]: 0};
    for (const p of curve) {
      if (p.steps >= step) {
        const share = p.steps > before.steps ? (step - before.steps) / (p.steps - before.steps) : 0;
        return before[across] + share * (p[across] - before[across]);
      }
      before = p;
    }
    return before[across];
  }

  let charts = null;
  let panels = [];

  function begin() {
    take_colours();
    if (charts) for (const chart of Object.values(charts)) chart.destroy();
    for (const panel of panels) panel.destroy();
    panels = [];
    document.getElementById("staleness").replaceChildren();
    charts = {
      loss: lines("loss", "loss", [{label: "training", ...solid()}, {label: "validation", ...held_out()},
        {label: "test", ...tested()}]),
      quality: lines("quality", "share", [{label: "validation", ...held_out()}, {label: "test", ...tested()}]),
      speed: lines("speed", "samples/s", [{label: "samples/s", ...solid()}]),
      gaps: lines("gaps", "versions", [{label: "mean", ...solid()}, {label: "p99", ...dashed()}]),
      times: bars("times", "share of the run [%]", [
        {label: "computing", backgroundColor: colours.accent},
        {label: "at barriers", backgroundColor: hatched(colours.orange, colours.hatch, 1)},
        {label: "at a bound", backgroundColor: hatched(colours.quiet, colours.paper, -1)},
        {label: "for batches", backgroundColor: colours.yellow},
        {label: "exchange, other", backgroundColor: colours.rest},
      ], {stacked: true, max: 100}),
      way: bars("way", "mean [ms]", [{label: "mean", backgroundColor: colours.accent}], {}),
    };
    charts.way.options.plugins.legend.display = false;
    for (const chart of [charts.loss, charts.quality]) // a run may have no such samples
      chart.options.plugins.legend.labels.filter = (item, data) => data.datasets[item.datasetIndex].data.length > 0;
  }

  function bars(id, label, datasets, {stacked = false, max}) {
    return new Chart(document.getElementById(id), {
      type: "bar",
      data: {labels: [], datasets: datasets.map((d) => ({borderColor: colours.ink, borderWidth: 1, maxBarThickness: 34, ...d, data: []}))},
      options: {
        indexAxis: "y",
        scales: {x: axis(label, {stacked, min: 0, max}), y: {stacked, grid: {display: false}}},
        plugins: {legend: {labels: {usePointStyle: false, boxWidth: 22, boxHeight: 11}}},
      },
    });
  }

  function show_curve(curve, across, logarithmic, switches) {
    const list = switches.map((s) => ({at: at_step(curve, across, s.step), word: "→ " + s.to}));
    for (const [chart, fields] of [[charts.loss, ["train_loss", "validation_loss", "test_loss"]],
      [charts.quality, ["validation_" + quality(curve), "test_" + quality(curve)]],
      [charts.speed, ["samples_per_s"]], [charts.gaps, ["staleness_mean", "staleness_p99"]]]) {
      fields.forEach((field, i) => {
        const of_test = /^(test|validation)_/.test(field);
        chart.data.datasets[i].data = (of_test ? points : means)(curve, across, field);
      });
      chart.options.scales.x.title.text = units[across];
      chart.options.plugins.marks.list = chart === charts.loss ? list : list.map((mark) => ({at: mark.at}));
    }
    charts.loss.options.scales.y.type = logarithmic ? "logarithmic" : "linear";
    charts.speed.options.scales.y.min = charts.gaps.options.scales.y.min = 0;
    const rmse = quality(curve) === "rmse";
    charts.quality.options.scales.y.title.text = rmse ? "RMSE [unit of the targets]" : "share of samples";
    charts.quality.options.scales.y.afterDataLimits = rmse ? undefined : within_shares;
    document.getElementById("quality-title").textContent = rmse ? "Error on samples not trained on"
      : "Accuracy on samples not trained on";
    const quality_section = document.getElementById("quality-section");
    quality_section.hidden = charts.quality.data.datasets.every((set) => set.data.length === 0);
    for (const chart of [charts.loss, charts.quality, charts.speed, charts.gaps]) chart.update();
  }

  // A single point has room around it, and a share cannot lie there.
  function within_shares(scale) {
    scale.min = Math.max(0, scale.min);
    scale.max = Math.min(1, scale.max);
  }

  const quality = (curve) =>
    (curve.some((p) => typeof p.test_rmse === "number" || typeof p.validation_rmse === "number") ? "rmse" : "accuracy");

  // Of many workers the first are shown, and the table of figures has the others.
  const most_panels = 12, most_bars = 24;

  function show_times(report) {
    const waits = report.wait_seconds.per_worker.slice(0, most_bars);
    const chart = charts.times;
    chart.data.labels = waits.map((w) => "worker " + w.worker);
    const computed = waits.map((w) => Math.max(0, ...report.time_split.per_shard
      .filter((x) => x.worker === w.worker && x.compute).map((x) => x.compute.seconds)));
    const share = (x) => (report.wall_seconds > 0 ? Math.min(100, (100 * x) / report.wall_seconds) : 0);
    const parts = [computed, waits.map((w) => w.barrier), waits.map((w) => w.bound), waits.map((w) => w.feeder)];
    parts.forEach((part, i) => { chart.data.datasets[i].data = part.map(share); });
    chart.data.datasets[4].data = waits.map((w, i) => Math.max(0, 100 - parts.reduce((sum, p) => sum + share(p[i]), 0)));
    document.getElementById("times-picture").style.height = Math.max(9, 6.5 + 2.4 * waits.length) + "rem";
    chart.update();
    const ways = ["read", "compute", "wire", "mailbox", "apply"].filter((name) => report.time_split[name]);
    charts.way.data.labels = ways;
    charts.way.data.datasets[0].data = ways.map((name) => 1000 * report.time_split[name].mean);
    charts.way.update();
  }

  // A gap is a whole number, although its bar is one wide.
  function whole_ticks(scale) {
    const every = Math.max(1, Math.ceil((scale.max - scale.min) / 12));
    scale.ticks = [];
    for (let gap = 0; gap <= scale.max; gap += every) scale.ticks.push({value: gap});
  }

  function panel(where, rank) {
    const title = document.createElement("h3");
    title.id = "panel-" + rank;
    const box = document.createElement("div");
    box.className = "picture";
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-labelledby", title.id);
    box.append(canvas);
    const both = document.createElement("div");
    both.append(title, box);
    where.append(both);
    return new Chart(canvas, {
      data: {labels: [], datasets: [
        {type: "line", label: "expected law", data: [], borderColor: colours.ink, backgroundColor: colours.paper, borderWidth: 1.5,
          borderDash: [5, 3], pointRadius: 3.5, pointStyle: "circle"},
        {type: "bar", label: "measured", data: [], backgroundColor: colours.bar, borderColor: colours.ink, borderWidth: 1,
          barPercentage: 1, categoryPercentage: 0.92}]},
      options: {
        parsing: false,
        scales: {x: axis("staleness [versions]", {type: "linear", offset: false, grid: {display: false},
          afterBuildTicks: whole_ticks}),
          y: axis("share [%]", {min: 0})},
        plugins: {marks: {list: []}, legend: {display: false}},
      },
      plugins: [marks],
    });
  }

  // The gap up to which a histogram is shown: a hundredth of a long tail is left out.
  function last_shown(gaps, mean) {
    const all = gaps.reduce((sum, [, count]) => sum + count, 0);
    let left = 0.99 * all, last = 3;
    for (const [gap, count] of gaps) {
      if (left <= 0) break;
      left -= count;
      last = Math.max(last, gap);
    }
    return Math.min(Math.max(last, Math.ceil(mean || 0)), 1000);
  }

  function show_staleness(report, expected) {
    const where = document.getElementById("staleness");
    const count = Math.min(report.workers, most_panels);
    while (panels.length < count) panels.push(panel(where, panels.length));
    panels.forEach((chart, rank) => {
      const gaps = new Map();
      for (const x of report.staleness.per_shard)
        if (x.worker === rank) for (const [gap, n] of x.histogram) gaps.set(gap, (gaps.get(gap) || 0) + n);
      const sorted = [...gaps].sort((a, b) => a[0] - b[0]);
      const all = sorted.reduce((sum, [, n]) => sum + n, 0);
      const mean = all > 0 ? sorted.reduce((sum, [gap, n]) => sum + gap * n, 0) / all : null;
      const law = expected[rank];
      const last = last_shown(sorted, law.mean);
      chart.options.scales.x.min = -0.5;
      chart.options.scales.x.max = last + 0.5;
      chart.data.datasets[1].data = [];
      for (let gap = 0; gap <= last; ++gap)
        chart.data.datasets[1].data.push({x: gap, y: all > 0 ? (100 * (gaps.get(gap) || 0)) / all : 0});
      chart.data.datasets[0].data = [];
      for (let gap = 0; law.geometric && gap <= last; ++gap)
        chart.data.datasets[0].data.push({x: gap, y: 100 * law.geometric * (1 - law.geometric) ** gap});
      chart.options.plugins.marks.list = law.mean === null ? [] :
        [{at: law.mean, dash: [6, 4], width: 2.5, colour: colours.orange}];
      const said = law.mean === null ? "no law is known" : `${law.at_most ? "at most " : ""}${short(law.mean)} expected`;
      document.getElementById("panel-" + rank).textContent = `worker ${rank}: mean ${short(mean)}, ${said}`;
      chart.update();
    });
    const words = [...new Set(expected.slice(0, count).map((x) => x.in_words))];
    const more = report.workers > count ? ` Shown are the first ${count} of ${report.workers} workers.` : "";
    document.getElementById("staleness-words").textContent =
      `Bars are measured, the dashed vertical line is the mean that the policy lets expect. ${words.join(" ")}${more}`;
  }

  return {begin, show_curve, show_times, show_staleness, short};
})();
