// Pictures of a run: what each shows, in colours that stay apart in grey, with dashes and markers.
"use strict";

const pictures = (() => {
  // As the style sheet has them for the scheme of this moment, light or dark.
  const colours = {};
  function take_colours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "quiet", "paper", "accent", "orange", "hatch", "yellow", "rest", "bar", "grid", "good", "bad"])
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

  // Of several runs each has a colour of its own, and dashes or markers by which a grey print tells them apart.
  const run_looks = [["accent", [], "circle"], ["orange", [8, 4], "rect"], ["ink", [2, 3], "triangle"],
    ["good", [10, 3, 2, 3], "rectRot"], ["bad", [16, 4], "star"], ["quiet", [4, 2, 1, 2], "crossRot"]];
  function look_of_run(which, look) {
    const [colour, dashes, marker] = run_looks[which % run_looks.length];
    const own = {...look, borderColor: colours[colour]};
    return look.pointRadius > 0 ? {...own, pointStyle: marker}
      : {...own, backgroundColor: colours[colour], borderDash: dashes, borderWidth: look.borderDash ? 1 : 2};
  }
  const of_runs = (labels, kinds) => labels.flatMap((label, which) => kinds.map(([name, look]) =>
    (labels.length === 1 ? {label: name, ...look()} : {label: `${label}, ${name}`, ...look_of_run(which, look())})));

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

  // Several runs have a label each; one run needs none.
  function begin(labels = [""]) {
    take_colours();
    if (charts) for (const chart of Object.values(charts)) chart.destroy();
    for (const panel of panels) panel.destroy();
    panels = [];
    document.getElementById("staleness").replaceChildren();
    charts = {
      loss: lines("loss", "loss", of_runs(labels, [["training", solid], ["validation", held_out], ["test", tested]])),
      quality: lines("quality", "share", of_runs(labels, [["validation", held_out], ["test", tested]])),
      speed: lines("speed", "samples/s", of_runs(labels, [["samples/s", solid]])),
      gaps: lines("gaps", "versions", of_runs(labels, [["mean", solid], ["p99", dashed]])),
      lag: points_of_samples("lag", "lag [versions]", "gap [weights]", labels),
      cosine: points_of_samples("cosine", "gap [weights]", "cosine to a fresh gradient", labels),
      times: bars("times", "share of the run [%]", [colours.accent, hatched(colours.orange, colours.hatch, 1),
        hatched(colours.quiet, colours.paper, -1), colours.yellow, colours.rest]
        .map((backgroundColor, i) => ({label: parts[i], backgroundColor})), {stacked: true, max: 100}),
      way: bars("way", "mean [ms]", labels.map((label, which) =>
        ({label: label || "mean", backgroundColor: colours[run_looks[which % run_looks.length][0]]})), {}),
    };
    charts.way.options.plugins.legend.display = labels.length > 1;
    for (const chart of [charts.loss, charts.quality, charts.speed, charts.gaps, charts.lag, charts.cosine]) // a run may have none
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

  // Gradients that were sampled, as points, and the mean of those at the same place where there are enough.
  function points_of_samples(id, x, y, labels) {
    const chart = lines(id, y, of_runs(labels, [["sampled", tested], ["mean", solid]]));
    chart.data.datasets.forEach((set, i) => { if (i % 2 === 0) Object.assign(set, {showLine: false, pointRadius: 2}); });
    chart.options.scales.x.title.text = x;
    chart.options.scales.y.ticks.callback = (value) => String(Number(value.toPrecision(6))); // cosines near 1
    return chart;
  }

  // Of several runs the first has the others beside it.
  function show_curve(curve, across, logarithmic, switches, which = 0) {
    const list = switches.map((s) => ({at: at_step(curve, across, s.step), word: "→ " + s.to}));
    for (const [chart, fields] of [[charts.loss, ["train_loss", "validation_loss", "test_loss"]],
      [charts.quality, ["validation_" + quality(curve), "test_" + quality(curve)]],
      [charts.speed, ["samples_per_s"]], [charts.gaps, ["staleness_mean", "staleness_p99"]]]) {
      fields.forEach((field, i) => {
        const of_test = /^(test|validation)_/.test(field);
        chart.data.datasets[which * fields.length + i].data = (of_test ? points : means)(curve, across, field);
      });
      chart.options.scales.x.title.text = units[across];
      const before = which === 0 ? [] : chart.options.plugins.marks.list;
      chart.options.plugins.marks.list = [...before, ...(chart === charts.loss ? list : list.map(({at}) => ({at})))];
    }
    charts.loss.options.scales.y.type = logarithmic ? "logarithmic" : "linear";
    charts.speed.options.scales.y.min = charts.gaps.options.scales.y.min = 0;
    // A run without tests has no say in what is drawn of the others.
    if (which === 0 || known(curve, "test_" + quality(curve)).length + known(curve, "validation_" + quality(curve)).length > 0) {
      const rmse = quality(curve) === "rmse";
      charts.quality.options.scales.y.title.text = rmse ? "RMSE [unit of the targets]" : "share of samples";
      charts.quality.options.scales.y.afterDataLimits = rmse ? undefined : within_shares;
      document.getElementById("quality-title").textContent = rmse ? "Error on samples not trained on"
        : "Accuracy on samples not trained on";
    }
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

  const parts = ["computing", "at barriers", "at a bound", "for batches", "exchange, other"];

  // What the first workers of a run spent on each part, in per cent of the run.
  function shares_of(report, most) {
    const computed = new Map(); // every shard is told the same time
    for (const x of report.time_split.per_shard)
      if (x.compute) computed.set(x.worker, Math.max(computed.get(x.worker) || 0, x.compute.seconds));
    const share = (seconds) => (report.wall_seconds > 0 ? (100 * seconds) / report.wall_seconds : 0);
    return report.wait_seconds.per_worker.slice(0, most).map((w) => {
      const shares = [computed.get(w.worker) || 0, w.barrier, w.bound, w.feeder].map(share);
      return {worker: w.worker, shares: [...shares, Math.max(0, 100 - shares.reduce((sum, x) => sum + x, 0))]};
    });
  }

  function show_times(runs) {
    const prefix = (run) => (runs.length > 1 ? run.label + ", " : "");
    const bars = runs.flatMap((run) => shares_of(run.state.report, Math.ceil(most_bars / runs.length))
      .map(({worker, shares}) => ({label: `${prefix(run)}worker ${worker}`, shares})));
    charts.times.data.labels = bars.map(({label}) => label);
    parts.forEach((part, i) => {
      charts.times.data.datasets[i].data = bars.map(({shares}) => Math.min(100, shares[i]));
    });
    document.getElementById("times-picture").style.height = Math.max(9, 6.5 + 2.4 * bars.length) + "rem";
    charts.times.update();
    const splits = runs.map((run) => run.state.report.time_split);
    const ways = ["read", "compute", "wire", "mailbox", "apply"].filter((name) => splits.some((split) => split[name]));
    charts.way.data.labels = ways;
    splits.forEach((split, i) => {
      charts.way.data.datasets[i].data = ways.map((name) => (split[name] ? 1000 * split[name].mean : null));
    });
    charts.way.update();
  }

  // The mean gap at each lag that is frequent enough to have one.
  function mean_gaps(sampled) {
    const by_lag = new Map();
    for (const {lag, gap} of sampled) {
      if (!by_lag.has(lag)) by_lag.set(lag, []);
      by_lag.get(lag).push(gap);
    }
    return [...by_lag].filter(([, gaps]) => gaps.length >= 5).sort(([a], [b]) => a - b)
      .map(([lag, gaps]) => ({x: lag, y: gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length}));
  }

  function show_sampled(runs) {
    const by_place = (a, b) => a.x - b.x; // Chart.js reads the ends of the axis off the first and the last point
    const of_run = (run) => run.state.report.sampled || [];
    document.getElementById("sampled-section").hidden = runs.every((run) => of_run(run).length === 0);
    runs.forEach((run, i) => {
      charts.lag.data.datasets[2 * i].data = of_run(run).map(({lag, gap}) => ({x: lag, y: gap})).sort(by_place);
      charts.lag.data.datasets[2 * i + 1].data = mean_gaps(of_run(run));
      charts.cosine.data.datasets[2 * i].data = of_run(run).filter(({cosine}) => cosine !== null)
        .map(({gap, cosine}) => ({x: gap, y: cosine})).sort(by_place);
    });
    for (const chart of [charts.lag, charts.cosine]) chart.update();
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

  // The gap up to which the histograms of a run are shown: a hundredth of a long tail is left out.
  function last_shown(gaps, laws) {
    let left = 0.99 * gaps.reduce((sum, [, count]) => sum + count, 0), last = 3;
    for (const [gap, count] of gaps) {
      if (left <= 0) break;
      left -= count;
      last = Math.max(last, gap);
    }
    return Math.max(last, ...laws.map((law) => Math.ceil(law.mean || 0)));
  }

  // A box stands for so many gaps that there are not more boxes than can be seen.
  const most_boxes = 1000;

  function show_gaps(chart, gaps, law, last, width) {
    const middle = (box) => box * width + (width - 1) / 2;
    const boxes = Array.from({length: Math.floor(last / width) + 1}, (none, box) => box);
    const all = gaps.reduce((sum, [, n]) => sum + n, 0), counts = new Map();
    for (const [gap, n] of gaps) counts.set(Math.floor(gap / width), (counts.get(Math.floor(gap / width)) || 0) + n);
    const beyond = (gap) => (1 - law.geometric) ** gap;
    chart.options.scales.x.min = -0.5;
    chart.options.scales.x.max = last + 0.5;
    chart.data.datasets[1].data = boxes.map((box) => ({x: middle(box), y: all > 0 ? (100 * (counts.get(box) || 0)) / all : 0}));
    chart.data.datasets[0].data = !law.geometric ? []
      : boxes.map((box) => ({x: middle(box), y: 100 * (beyond(box * width) - beyond((box + 1) * width))}));
    chart.options.plugins.marks.list = law.mean === null ? [] :
      [{at: law.mean, dash: [6, 4], width: 2.5, colour: colours.orange}];
    chart.update();
    return all > 0 ? gaps.reduce((sum, [gap, n]) => sum + gap * n, 0) / all : null;
  }

  // Returns what is to be said of them.
  function show_staleness_of({label, state: {report, expected}}, several, first) {
    const count = Math.min(report.workers, most_panels), laws = expected.slice(0, count);
    const last = last_shown(report.staleness.histogram, laws), width = Math.floor(last / most_boxes) + 1;
    laws.forEach((law, rank) => {
      while (panels.length <= first + rank) panels.push(panel(document.getElementById("staleness"), panels.length));
      const gaps = new Map();
      for (const x of report.staleness.per_shard)
        if (x.worker === rank) for (const [gap, n] of x.histogram) gaps.set(gap, (gaps.get(gap) || 0) + n);
      const mean = show_gaps(panels[first + rank], [...gaps].sort((a, b) => a[0] - b[0]), law, last, width);
      const said = law.mean === null ? "no law is known" : `${law.at_most ? "at most " : ""}${short(law.mean)} expected`;
      document.getElementById("panel-" + (first + rank)).textContent =
        `${several ? label + ", " : ""}worker ${rank}: mean ${short(mean)}, ${said}`;
    });
    const words = [...new Set(laws.map((law) => law.in_words))];
    if (width > 1) words.push(`A box stands for ${width} gaps.`);
    if (report.staleness.max > last) words.push(`Gaps above ${last} are beyond the axis; the largest is ${report.staleness.max}.`);
    if (report.workers > count) words.push(`Shown are the first ${count} of ${report.workers} workers.`);
    return (several ? label + ": " : "") + words.join(" ");
  }

  function show_staleness(runs) {
    let first = 0;
    const words = runs.map((run) => {
      const said = show_staleness_of(run, runs.length > 1, first);
      first += Math.min(run.state.report.workers, most_panels);
      return said;
    });
    document.getElementById("staleness-words").textContent =
      `Bars are measured, the dashed vertical line is the mean that the policy lets expect. ${words.join(" ")}`;
  }

  return {begin, show_curve, show_times, show_staleness, show_sampled, shares_of, parts, short};
})();
