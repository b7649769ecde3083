// Follows a run by the events of its server, and lets the page change it where that is allowed. A page that was kept
// holds the events of its runs itself.
"use strict";

(() => {
  const element = (id) => document.getElementById(id);
  const most_lines = 2000;

  // The token in the address has done its work: the browser now has a cookie.
  if (location.search) history.replaceState(null, "", location.pathname);

  const kept = document.getElementById("kept-runs");
  let runs = [];       // what "begin" told of each, with its curve and its last state; of a live page one
  let ended = false;
  let drawing = false; // a picture is due with the next frame
  let pace = [];       // how many steps there were when, as the run told

  function say_status(words, kind) {
    element("status").textContent = words;
    element("status").className = kind;
  }

  const in_words = (seconds) => {
    const s = Math.max(0, Math.round(seconds));
    const two = (x) => String(x).padStart(2, "0");
    return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`
      : `${Math.floor(s / 60)}:${two(s % 60)}`;
  };

  // Seconds to go at the pace of the last half minute or quarter of the run. The first steps of a run are slow, so
  // nothing is said before it has been watched for a while.
  function time_left(steps, seconds) {
    const last = pace[pace.length - 1];
    if (!last || seconds > last.seconds) pace.push({steps, seconds});
    const since = seconds - Math.max(30, seconds / 4);
    while (pace.length > 2 && pace[1].seconds <= since) pace.shift();
    const {steps: done, seconds: watched} = {steps: steps - pace[0].steps, seconds: seconds - pace[0].seconds};
    return done < 3 || watched < 5 ? null : (watched * (runs[0].total_steps - steps)) / done;
  }

  function show_progress() {
    const {curve, state, model, total_steps} = runs[0];
    const report = state ? state.report : null;
    const last = curve[curve.length - 1];
    const before = report && report.resumed ? report.resumed.steps_before : 0;
    const steps = before + Math.max(report ? report.steps : 0, last ? last.steps : 0);
    const seconds = Math.max(report ? report.wall_seconds : 0, last ? last.time_s : 0);
    const left = steps > 0 && !ended ? time_left(steps, seconds) : null;
    const share = total_steps > 0 ? Math.min(1, steps / total_steps) : 0;
    element("progress").value = share;
    let words = `step ${steps.toLocaleString("en")} of ${total_steps.toLocaleString("en")}, ` +
      `${(100 * share).toFixed(1)} %, ${in_words(seconds)} so far`;
    if (left !== null) words += `, about ${in_words(left)} left`;
    element("progress-words").textContent = words;
    document.title = `${ended ? "ended" : (100 * share).toFixed(0) + " %"} – ${model} – Mailgrad`;
  }

  // "2 of 3 workers" while one of them is gone.
  function format_workers({workers, members, ended: how}) {
    const states = members && how === "running" ? members.counts.worker : null;
    const there = states ? states.joined : workers;
    return `${there === workers ? "" : there + " of "}${workers} ${workers === 1 ? "worker" : "workers"}`;
  }

  function show_head({model, state: {report}}) {
    element("what").textContent = `${model} on ${report.data} · ${tables.policy_of(report)} · ` +
      `${format_workers(report)} · ` +
      `${report.shards} ${report.shards === 1 ? "shard" : "shards"}`;
    if (report.ended === "running") say_status("running", "running");
    else say_status(`the run has ended: ${tables.ending(report)}`,
      report.ended === "completed" || report.ended === "stopped" ? "ended" : "failed");
  }

  function show_state() {
    if (runs.length === 1) show_head(runs[0]);
    for (const show of [tables.show_tiles, tables.show_ledger, tables.show_members, tables.show_switches,
      tables.show_checkpoints, tables.show_facts, pictures.show_times, pictures.show_staleness, pictures.show_sampled])
      show(runs);
    if (kept) tables.show_times(runs);
    else tables.show_waits(runs[0].state.waits, runs[0].state.report.ended === "running");
  }

  function draw() {
    drawing = false;
    runs.forEach(({curve, state}, which) => pictures.show_curve(curve, element("across").value,
      element("logarithmic").checked, state ? state.report.switches : [], which));
    if (!kept) show_progress();
    if (runs[0].state) show_state();
  }
  // Many events may come at once, and a page in the background draws nothing.
  function draw_soon() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(draw);
  }

  // Far more lines than the pictures have pixels are thinned, those with a test apart.
  function add_line(line) {
    const run = runs[0], last = run.curve[run.curve.length - 1];
    if (last && line.time_s < last.time_s && line.steps <= last.steps) return; // told before
    if (last && line.time_s === last.time_s && line.steps === last.steps) { // a test, or told twice
      const told = Object.entries(line).filter(([, figure]) => figure !== null);
      line = {...run.curve.pop(), ...Object.fromEntries(told)};
    }
    run.curve.push(line);
    if (run.curve.length > most_lines) run.curve = run.curve.filter((p, i) => i % 2 === 0 || "test_loss" in p || "validation_loss" in p || i === run.curve.length - 1);
  }

  function begin(told) {
    runs = [{...told, curve: []}];
    ended = false;
    pace = [];
    pictures.begin();
    told.curve.forEach(add_line);
    element("what").textContent = told.model;
    say_status("waiting for the first figures", "waiting");
    element("control").hidden = !told.key;
    element("checkpoint").hidden = !told.keeps_checkpoints;
    draw_soon();
  }

  function end(told, source) {
    ended = true;
    runs[0].state = told;
    source.close();
    for (const button of document.querySelectorAll("#control button")) button.disabled = true;
    draw_soon();
  }

  function follow() {
    const source = new EventSource("/events");
    const on = (name, act) => source.addEventListener(name, (e) => act(JSON.parse(e.data)));
    on("begin", begin);
    on("line", (line) => { add_line(line); draw_soon(); });
    on("state", (told) => { runs[0].state = told; draw_soon(); });
    on("end", (told) => end(told, source));
    source.onerror = () => {
      if (!ended) say_status("nobody answers; the process may have ended", "waiting");
    };
  }

  async function change(path, body) {
    const answer = element("answer");
    answer.className = "";
    answer.textContent = "…";
    try {
      const told = await fetch(path, {method: "POST", body: JSON.stringify(body),
        headers: {"Content-Type": "application/json", "X-Mailgrad-Key": runs[0].key}});
      answer.textContent = (await told.text()).trim();
      answer.className = told.ok ? "" : "refused";
    } catch {
      answer.textContent = "Nobody answers; the process may have ended.";
      answer.className = "refused";
    }
  }

  element("switch-form").addEventListener("submit", (e) => {
    e.preventDefault();
    change("/switch", {policy: element("policy").value.trim()});
  });
  element("checkpoint").addEventListener("click", () => change("/checkpoint", {}));
  element("stop").addEventListener("click", () => {
    if (confirm("Stop the run? Steps that have begun are finished, and the report is written.")) change("/stop", {});
  });
  const begin_pictures = () => pictures.begin(runs.map(({label}) => label));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    begin_pictures();
    draw_soon();
  });
  for (const id of ["across", "logarithmic"]) element(id).addEventListener("change", draw_soon);

  function show_kept() {
    const told = JSON.parse(kept.textContent);
    runs = told.runs;
    element("loss-words").textContent = told.loss_words;
    element("what").textContent = runs.map(({label}) => label).join(" · ");
    element("status").hidden = runs.length > 1;
    begin_pictures();
    draw();
  }
  if (kept) show_kept();
  else follow();
})();
