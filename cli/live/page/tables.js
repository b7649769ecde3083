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

  function show_tiles(report, last) {
    const wanted = [
      ["loss", short(last ? last.train_loss : null), ""],
      [last_tested.name || "test accuracy", short(last_tested.figure), ""],
      ["samples/s", short(last ? last.samples_per_s : null), ""],
      ["mean staleness", short(report.staleness.mean), " versions"],
      ["staleness p99", short(report.staleness.p99), " versions"],
      ["learning rate", short(last ? last.learning_rate : report.learning_rate), ""],
    ];
    const tiles = document.getElementById("tiles");
    tiles.replaceChildren();
    for (const [name, value, unit] of wanted) {
      const tile = document.createElement("div");
      const figure = cell("dd", value);
      if (unit && value !== "–") figure.append(cell("small", unit));
      tile.append(cell("dt", name), figure);
      tiles.append(tile);
    }
  }

  const last_tested = {};
  function note_test(line) {
    for (const [field, name] of [["validation_accuracy", "validation accuracy"], ["validation_rmse", "validation RMSE"],
      ["test_accuracy", "test accuracy"], ["test_rmse", "test RMSE"]])
      if (typeof line[field] === "number") Object.assign(last_tested, {name, figure: line[field]});
  }
  function begin() {
    for (const name of Object.keys(last_tested)) delete last_tested[name];
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

  function show_ledger(report, under_way, late) {
    const l = report.ledger;
    if (!l) return fill("ledger", [], [], "Unknown: no shard has told what became of them.");
    const share = (x) => (l.produced > 0 ? ((100 * x) / l.produced).toFixed(1) + " %" : "");
    const rows = [["produced", l.produced, ""], ["applied", l.applied, share(l.applied)],
      ["merged", l.merged, share(l.merged)]];
    for (const [reason, count] of Object.entries(l.discarded))
      rows.push(["discarded: " + reason, count, share(count)]);
    rows.push(["lost", l.lost, share(l.lost)], ["under way", under_way, share(under_way)]);
    if (late.length > 0) rows.push(["figures of late shards", late_words(late), ""]);
    fill("ledger", ["what became of them", "gradients", "share"], rows, "");
  }

  // A switch of an earlier process has no time.
  function show_switches(report) {
    const rows = report.switches.map((s) =>
      [s.step, s.time_s === null ? "–" : s.time_s.toFixed(1) + " s", s.from, s.to, s.why]);
    fill("switches", ["step", "after", "from", "to", "why"], rows,
      `The policy has not changed: it is ${report.present_policy}.`);
  }

  function ago(seconds) {
    if (seconds === null) return "unknown";
    if (seconds < 120) return seconds.toFixed(1) + " s ago";
    return seconds < 7200 ? (seconds / 60).toFixed(0) + " min ago" : (seconds / 3600).toFixed(1) + " h ago";
  }

  // "2 workers joined, 1 lost; 1 parameter host joined"
  function counts_in_words(counts) {
    const of_role = ([role, states]) => Object.entries(states).filter(([, n]) => n > 0)
      .map(([state, n], i) => `${n}${i > 0 ? "" : ` ${role}${n === 1 ? "" : "s"}`} ${state}`).join(", ");
    return Object.entries(counts).map(of_role).join("; ");
  }

  function last_words(m) {
    if (m.losses > 1 && m.state !== "left") return `was lost ${m.losses} times, the last time: ${m.why}`;
    return m.losses === 1 && ["joined", "done"].includes(m.state) ? "was lost: " + m.why : m.why;
  }

  // Of a run in one process there are none.
  function show_members(report) {
    const members = report.members;
    document.getElementById("members-section").hidden = !members;
    if (!members) return;
    const all = Object.values(members.counts).flatMap((states) => Object.values(states)).reduce((a, b) => a + b, 0);
    const more = all - members.listed.length;
    document.getElementById("members-words").textContent = counts_in_words(members.counts) +
      (more > 0 ? `; ${more} more than the table has, which give less cause for concern` : "");
    fill("members", ["member", "state", "since", "heard", "from", "incarnation", "devices or shards", "last words"],
      members.listed.map((m) => [`${m.role} ${m.number}`, m.state === "joined" && m.losses > 0 ? "back" : m.state,
        ago(m.since_seconds), ago(m.heard_seconds), m.address, m.incarnation,
        m.role === "worker" ? m.devices.join(", ") : "shards " + m.shards.join(", "), last_words(m)]), "");
  }

  function show_checkpoints(report) {
    const c = report.checkpoints;
    document.getElementById("checkpoints-section").hidden = !c;
    if (!c) return;
    const rows = [["written", whole(c.written)], ["last at step", c.written > 0 ? whole(c.last_steps) : "none yet"],
      ["last file", c.last || "none yet"], ["in all", (c.bytes / 1048576).toFixed(1) + " MiB"],
      ["failed", whole(c.failed)]];
    if (c.held_seconds > 0) rows.push(["workers stood still", c.held_seconds.toFixed(3) + " s"]);
    if (c.failure) rows.push(["why", c.failure]);
    fill("checkpoints", [], rows, "");
  }

  function recorded_in(recording) {
    if (!recording) return [];
    const left = recording.kept ? "; " + whole(recording.kept_bytes) + " bytes of it are in " + recording.kept : "";
    return [["recording", recording.file + (recording.failure ? ", ended early: " + recording.failure + left : "")]];
  }

  function show_facts(report, model) {
    const s = report.staleness, w = report.wait_seconds;
    const seconds = (x) => x.toFixed(2) + " s";
    fill("facts", [], [
      ["model", model + (report.span ? ", " + report.span : "") + ", " + whole(report.weights) + " weights"],
      ["data", report.data],
      ["devices", report.devices.join(", ")],
      ["policy", report.present_policy],
      ...(report.policy === report.present_policy ? [] : [["policy as asked for", report.policy]]),
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
      ...recorded_in(report.recording),
      ["host, processor", (report.host || "unknown") + ", " + (report.processor || "unknown")],
      ["version", report.version + ", commit " + (report.commit || "unknown")],
    ], "");
  }

  return {begin, note_test, show_tiles, show_waits, show_ledger, show_members, show_switches,
    show_checkpoints, show_facts};
})();
