// Tables of a run. Every text of the run is inserted as text, never as HTML.
"use strict";

const tables = (() => {
  const short = pictures.short;
  const whole = (x) => (typeof x === "number" ? x.toLocaleString("en") : "–");

  function cell(kind, text, number = false) {
    const made = document.createElement(kind);
    made.textContent = text;
    if (number) made.className = "number";
    return made;
  }

  // Rows of cells; a number stands to the right. Without rows, a sentence.
  function fill(id, heads, rows, nothing) {
    const table = document.getElementById(id);
    const body = document.createElement("tbody");
    for (const row of rows) {
      const line = document.createElement("tr");
      row.forEach((x, i) => {
        const made = cell(i === 0 && heads.length === 0 ? "th" : "td", typeof x === "number" ? whole(x) : x,
          typeof x === "number");
        if (made.tagName === "TH") made.scope = "row";
        line.append(made);
      });
      body.append(line);
    }
    if (rows.length === 0) {
      const line = document.createElement("tr");
      const made = cell("td", nothing);
      made.className = "none";
      line.append(made);
      body.append(line);
    }
    table.replaceChildren(body);
    if (heads.length === 0 || rows.length === 0) return;
    const head = document.createElement("thead");
    const line = document.createElement("tr");
    heads.forEach((text, i) => { line.append(cell("th", text, typeof rows[0][i] === "number")); });
    head.append(line);
    table.prepend(head);
  }

  // A row for each name that a run has, and a column for each run.
  function compare(id, runs, rows_of, several = runs.length > 1) {
    const told = runs.map((run) => new Map(rows_of(run)));
    const names = [...new Set(told.flatMap((rows) => [...rows.keys()]))];
    fill(id, several ? ["", ...runs.map((run) => run.label)] : [],
      names.map((name) => [name, ...told.map((rows) => rows.get(name) ?? "")]), "");
  }

  // Rows of all runs below each other, with the label of the run before them if there are several.
  function fill_for(id, runs, heads, rows_of, nothing, several = runs.length > 1) {
    fill(id, several ? ["run", ...heads] : heads,
      runs.flatMap((run) => rows_of(run).map((row) => (several ? [run.label, ...row] : row))), nothing);
  }

  // The last test of a line, or that at the end.
  function last_test({curve, state: {report}}) {
    const names = [["test_accuracy", "test accuracy"], ["test_rmse", "test RMSE"],
      ["validation_accuracy", "validation accuracy"], ["validation_rmse", "validation RMSE"]];
    for (const line of [...curve].reverse().concat(report))
      for (const [field, name] of names) if (typeof line[field] === "number") return {name, figure: line[field]};
    return {name: "test accuracy", figure: null};
  }

  function show_tiles(runs) {
    const tiles = document.getElementById("tiles");
    tiles.replaceChildren();
    if (runs.length > 1) return;
    const {curve, state: {report}} = runs[0];
    const last = curve[curve.length - 1], test = last_test(runs[0]);
    const wanted = [
      ["loss", short((last && last.train_loss) ?? report.final_loss), ""],
      [test.name, short(test.figure), ""],
      [report.delays && report.delays.virtual_time ? "samples a virtual second" : "samples/s",
        short(last ? last.samples_per_s : report.samples_per_second), ""],
      ["mean staleness", short(report.staleness.mean), " versions"],
      ["staleness p99", short(report.staleness.p99), " versions"],
      ["learning rate", short(last ? last.learning_rate : report.learning_rate), ""],
    ];
    for (const [name, value, unit] of wanted) {
      const tile = document.createElement("div");
      const figure = cell("dd", value);
      if (unit && value !== "–") figure.append(cell("small", unit));
      tile.append(cell("dt", name), figure);
      tiles.append(tile);
    }
  }

  // "shard 0 waits for worker 1, for 2.1 s" in two columns
  function show_waits(waits, running) {
    const rows = waits.map((wait) => {
      const at = wait.lastIndexOf(", for ");
      return at < 0 ? [wait, ""] : [wait.slice(0, at), wait.slice(at + 6)];
    });
    fill("waits", ["who and what for", "for"], rows,
      running ? "Nobody waits at this moment." : "The run has ended, so nobody waits.");
  }

  // Figures that some shards told earlier, or not at all, stand among those of now.
  function late_words(late) {
    const age = (x) => (x.seconds_old === null ? "has told none" : "told them " + x.seconds_old.toFixed(1) + " s ago");
    return late.slice(0, 8).map((x) => `shard ${x.shard} ${age(x)}`).join(", ") +
      (late.length > 8 ? `, and ${late.length - 8} more` : "");
  }

  function fates({report: {ledger: l}, under_way, late}) {
    if (!l) return [["produced", "unknown: no shard has told what became of them"]];
    return [["produced", l.produced], ["applied", l.applied], ["merged", l.merged],
      ...Object.entries(l.discarded).map(([reason, count]) => ["discarded: " + reason, count]),
      ["lost", l.lost], ["under way", under_way],
      ...(late.length > 0 ? [["figures of late shards", late_words(late)]] : [])];
  }

  function show_ledger(runs) {
    if (runs.length > 1) return compare("ledger", runs, (run) => fates(run.state));
    const {ledger} = runs[0].state.report;
    if (!ledger) return fill("ledger", [], [], "Unknown: no shard has told what became of them.");
    const share = (x) => (ledger.produced > 0 ? ((100 * x) / ledger.produced).toFixed(1) + " %" : "");
    fill("ledger", ["what became of them", "gradients", "share"], fates(runs[0].state).map(([name, count], i) =>
      [name, count, i === 0 || typeof count !== "number" ? "" : share(count)]), "");
  }

  // A switch of an earlier process has no time.
  function show_switches(runs) {
    fill_for("switches", runs, ["step", "after", "from", "to", "why"], ({state: {report}}) => report.switches.map((s) =>
      [s.step, typeof s.time_s === "number" ? s.time_s.toFixed(1) + " s" : "–", s.from, s.to, s.why]),
      runs.length > 1 ? "The policy changed in no run." : `The policy has not changed: it is ${policy_of(runs[0].state.report)}.`);
  }

  function ago(seconds) {
    if (typeof seconds !== "number") return "unknown";
    if (seconds < 120) return seconds.toFixed(1) + " s ago";
    return seconds < 7200 ? (seconds / 60).toFixed(0) + " min ago" : (seconds / 3600).toFixed(1) + " h ago";
  }

  // "2 workers joined, 1 lost; 1 parameter host joined"
  function format_counts(counts) {
    const of_role = ([role, states]) => Object.entries(states).filter(([, n]) => n > 0)
      .map(([state, n], i) => `${n}${i > 0 ? "" : ` ${role}${n === 1 ? "" : "s"}`} ${state}`).join(", ");
    return Object.entries(counts).map(of_role).join("; ");
  }

  function last_words(m) {
    if (m.losses > 1 && m.state !== "left") return `was lost ${m.losses} times, the last time: ${m.why}`;
    return m.losses === 1 && ["joined", "done"].includes(m.state) ? "was lost: " + m.why : m.why;
  }

  // Of runs in one process there are none.
  function show_members(runs) {
    const of_run = (run) => run.state.report.members;
    const over_processes = runs.filter(of_run);
    document.getElementById("members-section").hidden = over_processes.length === 0;
    const words = over_processes.map((run) => {
      const {counts = {}, listed} = of_run(run);
      const all = Object.values(counts).flatMap((states) => Object.values(states)).reduce((a, b) => a + b, 0);
      const more = all - listed.length;
      return (runs.length > 1 ? run.label + ": " : "") + format_counts(counts) +
        (more > 0 ? `; ${more} more than the table has, which give less cause for concern` : "");
    });
    document.getElementById("members-words").textContent = words.join(". ");
    fill_for("members", over_processes,
      ["member", "state", "since", "heard", "from", "incarnation", "devices or shards", "last words"],
      (run) => of_run(run).listed.map((m) => [`${m.role} ${m.number}`, m.state === "joined" && m.losses > 0 ? "back" : m.state,
        ago(m.since_seconds), ago(m.heard_seconds), m.address ?? "", m.incarnation ?? "",
        m.role === "worker" ? (m.devices || []).join(", ") : "shards " + (m.shards || []).join(", "), last_words(m)]), "", runs.length > 1);
  }

  function show_checkpoints(runs) {
    const taken = runs.filter((run) => run.state.report.checkpoints);
    document.getElementById("checkpoints-section").hidden = taken.length === 0;
    compare("checkpoints", taken, ({state: {report: {checkpoints: c}}}) => [
      ["written", whole(c.written)], ["last at step", c.written > 0 ? whole(c.last_steps) : "none yet"],
      ["last file", c.last || "none yet"], ["in all", (c.bytes / 1048576).toFixed(1) + " MiB"],
      ["failed", whole(c.failed)],
      ...(c.held_seconds > 0 ? [["workers stood still", c.held_seconds.toFixed(3) + " s"]] : []),
      ...(c.failure ? [["why", c.failure]] : [])], runs.length > 1);
  }

  // The figures of the pictures of time.
  function show_times(runs) {
    fill_for("times-table", runs, ["worker", ...pictures.parts.map((part) => part + " [%]")], (run) =>
      pictures.shares_of(run.state.report, 40).map(({worker, shares}) => [String(worker), ...shares.map((x) => x.toFixed(2))]), "");
    fill_for("way-table", runs, ["part", "mean [ms]", "longest [ms]"], ({state: {report: {time_split}}}) =>
      ["read", "compute", "wire", "mailbox", "apply"].filter((name) => time_split[name])
        .map((name) => [name, short(1000 * time_split[name].mean), short(1000 * time_split[name].max)]), "Nobody measured them.");
  }

  function recorded_in(recording) {
    if (!recording) return [];
    const left = recording.kept ? "; " + whole(recording.kept_bytes) + " bytes of it are in " + recording.kept : "";
    return [["recording", recording.file + (recording.failure ? ", ended early: " + recording.failure + left : "")]];
  }

  // "stopped on the live page" says "stopped" itself.
  const ending = ({ended: how, why}) => (why.startsWith(how) ? why : how + (why ? ", " + why : ""));
  const policy_of = (report) => report.present_policy || report.policy;

  // Who was lost of a run over processes, back or not.
  const lost_in = (members) => (members ? members.listed : []).filter((m) => m.losses > 0).map((m) =>
    `${m.role} ${m.number}${["lost", "left"].includes(m.state) ? "" : ", which is back"}: ${m.why}`).join("; ");

  function results_of(report) {
    const simulated = report.delays && report.delays.virtual_time;
    const lost = lost_in(report.members);
    return [
      ["ended", ending(report)],
      ...(lost ? [["lost", lost]] : []),
      [simulated ? "virtual time" : "time", short(report.wall_seconds) + " s"],
      [simulated ? "samples a virtual second" : "samples/s", short(report.samples_per_second)],
      ...[["test_accuracy", "test accuracy"], ["test_rmse", "test RMSE"], ["validation_loss", "validation loss"]]
        .filter(([field]) => typeof report[field] === "number").map(([field, name]) => [name, short(report[field])]),
      ...(report.best ? [["weights of the best test, after step", whole(report.best.steps)]] : []),
      ["weights, SHA-256", report.parameters_sha256],
      ["date", report.date || "unknown"],
    ];
  }

  function facts_of({model, file, state: {report}}) {
    const s = report.staleness, w = report.wait_seconds;
    const seconds = (x) => x.toFixed(2) + " s";
    const policy = policy_of(report);
    return [
      ...(file ? [["report", file]] : []),
      ["model", model + (report.span ? ", " + report.span : "") + (report.weights > 0 ? `, ${whole(report.weights)} weights` : "")],
      ["data", report.data],
      ["devices", (report.devices || []).join(", ")],
      ["policy", policy],
      ...(report.policy === policy ? [] : [["policy as asked for", report.policy]]),
      ["cure", report.cure.name],
      ["workers, shards", whole(report.workers) + ", " + whole(report.shards)],
      ["optimiser", report.optimizer + ", learning rate " + short(report.learning_rate)],
      ["batch", whole(report.batch) + " samples"],
      ["seed", String(report.seed)],
      ["steps, updates", whole(report.steps) + ", " + whole(report.updates)],
      ["samples", whole(report.samples)],
      ["epochs", short(report.epochs)],
      ["staleness mean, p50, p99, max", [s.mean, s.p50, s.p99, s.max].map(short).join(", ")],
      ["waited at barriers, at a bound, for batches", [w.barrier, w.bound, w.feeder].map(seconds).join(", ")],
      ["loss of the last steps", short(report.final_loss)],
      ...(report.ended === "running" ? [] : results_of(report)),
      ...recorded_in(report.recording),
      ["host, processor", (report.host || "unknown") + ", " + (report.processor || "unknown")],
      ["version", report.version + ", commit " + (report.commit || "unknown")],
    ];
  }

  const show_facts = (runs) => compare("facts", runs, facts_of);

  return {ending, policy_of, show_tiles, show_times, show_waits, show_ledger, show_members, show_switches,
    show_checkpoints, show_facts};
})();
