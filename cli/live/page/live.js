// Follows a run by the events of its server, and lets the page change it where that is allowed.
"use strict";

(() => {
  const element = (id) => document.getElementById(id);
  const most_lines = 2000;

  // The token in the address has done its work: the browser now has a cookie.
  if (location.search) history.replaceState(null, "", location.pathname);

  let run = null;      // what "begin" told
  let curve = [];      // lines of metrics
  let state = null;    // the last state
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
    return done < 3 || watched < 5 ? null : (watched * (run.total_steps - steps)) / done;
  }

  function show_progress() {
    const report = state ? state.report : null;
    const last = curve[curve.length - 1];
    const before = report && report.resumed ? report.resumed.steps_before : 0;
    const steps = before + Math.max(report ? report.steps : 0, last ? last.steps : 0);
    const seconds = Math.max(report ? report.wall_seconds : 0, last ? last.time_s : 0);
    const left = steps > 0 && !ended ? time_left(steps, seconds) : null;
    const share = run.total_steps > 0 ? Math.min(1, steps / run.total_steps) : 0;
    element("progress").value = share;
    let words = `step ${steps.toLocaleString("en")} of ${run.total_steps.toLocaleString("en")}, ` +
      `${(100 * share).toFixed(1)} %, ${in_words(seconds)} so far`;
    if (left !== null) words += `, about ${in_words(left)} left`;
    element("progress-words").textContent = words;
    document.title = `${ended ? "ended" : (100 * share).toFixed(0) + " %"} – ${run.model} – Mailgrad`;
  }

  // "stopped on the live page" says "stopped" itself.
  const ending = ({ended: how, why}) => (why.startsWith(how) ? why : how + (why ? ", " + why : ""));

  // "2 of 3 workers" while one of them is gone.
  function workers_in_words({workers, members, ended: how}) {
    const states = members && how === "running" ? members.counts.worker : null;
    const there = states ? states.joined : workers;
    return `${there === workers ? "" : there + " of "}${workers} ${workers === 1 ? "worker" : "workers"}`;
  }

  function show_state() {
    const {report, expected, under_way, late, waits} = state;
    const running = report.ended === "running";
    element("what").textContent = `${run.model} on ${report.data} · ${report.present_policy} · ` +
      `${workers_in_words(report)} · ` +
      `${report.shards} ${report.shards === 1 ? "shard" : "shards"}`;
    if (running) say_status("running", "running");
    else say_status(`the run has ended: ${ending(report)}`,
      report.ended === "completed" || report.ended === "stopped" ? "ended" : "failed");
    tables.show_ledger(report, under_way, late);
    tables.show_waits(waits, running);
    tables.show_members(report);
    tables.show_switches(report);
    tables.show_checkpoints(report);
    tables.show_facts(report, run.model);
    pictures.show_times(report);
    pictures.show_staleness(report, expected);
  }

  function draw() {
    drawing = false;
    const switches = state ? state.report.switches : [];
    pictures.show_curve(curve, element("across").value, element("logarithmic").checked, switches);
    show_progress();
    if (!state) return;
    show_state();
    tables.show_tiles(state.report, curve[curve.length - 1]);
  }
  // Many events may come at once, and a page in the background draws nothing.
  function draw_soon() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(draw);
  }

  // Far more lines than the pictures have pixels are thinned, those with a test apart.
  function add_line(line) {
    const last = curve[curve.length - 1];
    if (last && line.time_s < last.time_s && line.steps <= last.steps) return; // told before
    if (last && line.time_s === last.time_s && line.steps === last.steps) { // a test, or told twice
      const told = Object.entries(line).filter(([, figure]) => figure !== null);
      line = {...curve.pop(), ...Object.fromEntries(told)};
    }
    curve.push(line);
    tables.note_test(line);
    if (curve.length > most_lines) curve = curve.filter((p, i) => i % 2 === 0 || "test_loss" in p || "validation_loss" in p || i === curve.length - 1);
  }

  function begin(told) {
    run = told;
    ended = false;
    curve = [];
    pace = [];
    state = told.state;
    tables.begin();
    pictures.begin();
    told.curve.forEach(add_line);
    element("what").textContent = run.model;
    say_status("waiting for the first figures", "waiting");
    element("control").hidden = !run.key;
    element("checkpoint").hidden = !run.keeps_checkpoints;
    draw_soon();
  }

  function end(told, source) {
    ended = true;
    state = told;
    source.close();
    for (const button of document.querySelectorAll("#control button")) button.disabled = true;
    draw_soon();
  }

  function follow() {
    const source = new EventSource("/events");
    const on = (name, act) => source.addEventListener(name, (e) => act(JSON.parse(e.data)));
    on("begin", begin);
    on("line", (line) => { add_line(line); draw_soon(); });
    on("state", (told) => { state = told; draw_soon(); });
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
        headers: {"Content-Type": "application/json", "X-Mailgrad-Key": run.key}});
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
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    pictures.begin();
    draw_soon();
  });
  for (const id of ["across", "logarithmic"]) element(id).addEventListener("change", draw_soon);
  follow();
})();
