"use strict";
(() => {
  const main = document.querySelector("main");
  const panes = [...main.querySelectorAll(".pane")];
  const status = document.getElementById("status");
  const lines = new Map(); // from a statement's key to the lines about it
  for (const line of main.querySelectorAll("li[id]")) {
    for (const key of keysOf(line)) {
      if (!lines.has(key)) lines.set(key, []);
      lines.get(key).push(line);
    }
  }
  let pinned = null;
  let lit = [];
  let waiting = 0;

  function keysOf(line) {
    return (line.dataset.s || line.dataset.to || "").split(" ").filter(Boolean);
  }

  function paneOf(line) {
    return line.closest(".pane");
  }

  function isShown(pane) {
    return pane.offsetParent !== null || getComputedStyle(pane).display !== "none";
  }

  // the lines of other panes that answer a line, or that it answers
  function partnersOf(line) {
    const [first, ...others] = keysOf(line);
    const found = first ? lines.get(first).filter((l) => paneOf(l) !== paneOf(line)) : [];
    for (const key of others) {
      found.push(...(lines.get(key) || []).filter((l) => l.dataset.s === key));
    }
    return [...new Set(found)];
  }

  function mark(line, name) {
    line.classList.add(name);
    lit.push([line, name]);
  }

  function clear() {
    for (const [line, name] of lit) line.classList.remove(name);
    lit = [];
  }

  function show(line, scroll) {
    clear();
    clearTimeout(waiting);
    if (!line) {
      status.textContent = "";
      return;
    }
    const first = keysOf(line)[0];
    const partners = partnersOf(line);
    for (const other of first ? lines.get(first) : []) {
      if (paneOf(other) === paneOf(line) && other !== line) {
        mark(other, line.dataset.s ? "here" : "kin");
      }
    }
    for (const other of partners) mark(other, "on");
    mark(line, "here");
    status.textContent = described(line, partners);
    const move = () => reveal(partners, paneOf(line));
    if (scroll === "now") move();
    else waiting = setTimeout(move, 120);
  }

  function reveal(partners, own) {
    for (const pane of panes) {
      if (pane === own || !isShown(pane)) continue;
      const here = partners.filter((l) => paneOf(l) === pane);
      const wanted = pane.id === "user" ? here.slice(0, 1) : here; // the nearest; or any answer
      if (here.length && !wanted.some((l) => isInView(l, pane))) center(here[0], pane);
    }
  }

  function place(line, pane) {
    return line.getBoundingClientRect().top - pane.getBoundingClientRect().top;
  }

  function isInView(line, pane) {
    const top = place(line, pane);
    return top > 30 && top < pane.clientHeight - 24;
  }

  function center(line, pane) {
    pane.scrollTop += place(line, pane) - pane.clientHeight / 3;
  }

  function described(line, partners) {
    const told = [line.querySelector(".no").getAttribute("aria-label")];
    const quoted = partners.find((l) => l.dataset.s);
    if (quoted) told.push(quoted.querySelector("code").textContent.trim());
    const names = new Map();
    for (const name of line.querySelectorAll("code [title]")) names.set(name.textContent, name.title);
    for (const [name, meaning] of names) {
      told.push([`${name}: ${meaning}`, ...placesOf(name, line)].join(", "));
    }
    told.push(line.dataset.more);
    return told.filter(Boolean).join(" \u00b7 ");
  }

  // the lines of a function around a line; a text has its functions one below the other
  const functions = new Map();
  for (const pane of panes) {
    let own = [], list = null;
    for (const line of pane.querySelectorAll("li[id]")) {
      const isNext = pane.id === "user" && line.parentNode !== list;
      if (isNext || /^def /.test(line.querySelector("code").textContent)) own = [];
      list = line.parentNode;
      own.push(line);
      functions.set(line, own);
    }
  }

  function namesIn(line) {
    return [...line.querySelectorAll("code [title]")];
  }

  // the code of a line without strings and comments
  function codeOf(line) {
    const copy = line.querySelector("code").cloneNode(true);
    for (const quoted of copy.querySelectorAll(".s, .c")) quoted.remove();
    return copy.textContent;
  }

  // the code without what stands in calls and subscripts; of a subscript, "[" stays. `open` has
  // the brackets that earlier lines have left open, and is brought up to date
  function outside(code, open) {
    let kept = "";
    for (let k = 0; k < code.length; k++) {
      const letter = code[k];
      if ("([".includes(letter)) {
        const follows = /[\p{L}\p{N}_)\]]/u.test(code[k - 1] || "");
        const isHead = letter === "(" && !open.length && /^\s*def [^(]*$/.test(code.slice(0, k));
        if (follows && letter === "[" && !open.some(Boolean)) kept += letter;
        if (isHead) kept += " ";
        open.push(follows && !isHead);
      } else if (")]".includes(letter)) {
        open.pop();
      } else if (!open.some(Boolean)) {
        kept += letter;
      }
    }
    return kept;
  }

  // the parts of a line that names are set in, each with whether it also reads what it sets
  function targetsOf(code, open) {
    const isInside = open.length > 0;
    const isHead = /^\s*def /.test(code);
    const found = [...code.matchAll(/(?:^|[\s(\[{])for (.*?) in /g)].map((m) => [m[1], false]);
    found.push(...[...code.matchAll(/([\p{L}\p{N}_]+)\s*:=/gu)].map((m) => [m[1], false]));
    const kept = outside(code, open);
    if (isHead || (isInside && open.isHead)) {
      open.isHead = open.length > 0;
      const names = kept.replace(/^\s*def [^\s(]*/, "").split(",");
      return [...found, ...names.map((n) => [n.split(/[:=]/)[0], false])];
    }
    if (isInside) return found;
    for (const statement of kept.split(";")) {
      const plain = statement.replace(/^\s*(if|elif|else|while|for|with|try|except|finally)\b.*?:(?=\s)/, "");
      const alike = plain.split(/\blambda\b/)[0].replace(/(<<|>>)=/g, "|=").replace(/[=<>!:]=/g, "  ");
      const parts = alike.split(/(\*\*|\/\/|[-+*\/@%&|^])?=/);
      for (let k = 0; k + 1 < parts.length; k += 2) found.push([parts[k].split(":")[0], Boolean(parts[k + 1])]);
    }
    return found;
  }

  // the places where a name is set and read in the function, by line numbers
  function placesOf(name, line) {
    const own = functions.get(line), set = [], read = [];
    if (!own.targets) {
      const open = [];
      own.targets = own.map((other) => targetsOf(codeOf(other), open));
      own.names = own.map((other) => namesIn(other).map((n) => n.textContent));
    }
    const word = new RegExp(`(?:^|[^\\p{L}\\p{N}_.])${name}(?![\\p{L}\\p{N}_.])(\\[?)`, "u");
    for (const [k, other] of own.entries()) {
      const count = own.names[k].filter((n) => n === name).length;
      if (!count) continue;
      const hits = own.targets[k].map(([text, both]) => [word.exec(text), both]).filter(([hit]) => hit);
      const number = /\d+$/.exec(other.id)[0];
      if (hits.length) set.push(number);
      if (count > hits.length || hits.some(([hit, both]) => both || hit[1])) read.push(number);
    }
    const few = (places) => places.slice(0, 8).join(" ") + (places.length > 8 ? " ..." : "");
    return [set.length ? `set ${few(set)}` : "", read.length ? `read ${few(read)}` : ""].filter(Boolean);
  }

  main.addEventListener("mouseover", (event) => {
    for (const name of main.querySelectorAll(".same")) name.classList.remove("same");
    const own = event.target.closest("code [title]");
    if (!own) return;
    for (const line of functions.get(own.closest("li")) || []) {
      for (const name of namesIn(line)) {
        if (name.textContent === own.textContent) name.classList.add("same");
      }
    }
  });

  function lineAt(target) {
    const line = target.closest ? target.closest("li[id]") : null;
    return line && keysOf(line).length ? line : null;
  }

  function pin(line) {
    pinned = line === pinned ? null : line;
    show(line, "now");
  }

  main.addEventListener("mouseover", (event) => {
    const line = lineAt(event.target);
    if (line && !pinned) show(line);
  });
  main.addEventListener("click", (event) => {
    if (event.target.closest("input, summary, h2")) return;
    const line = lineAt(event.target);
    if (event.target.closest("a.no")) event.preventDefault();
    if (line && !String(getSelection())) pin(line);
  });

  // one stop of the Tab key for each pane; arrows go on from there
  function linksOf(pane) {
    return [...pane.querySelectorAll("a.no")].filter((link) => link.offsetParent !== null);
  }

  function stopAt(link) {
    for (const other of paneOf(link).querySelectorAll('a.no[tabindex="0"]')) other.tabIndex = -1;
    link.tabIndex = 0;
  }

  for (const pane of panes) {
    pane.querySelectorAll("a.no").forEach((link, k) => (link.tabIndex = k ? -1 : 0));
  }

  main.addEventListener("focusin", (event) => {
    const link = event.target.closest("a.no");
    if (!link) return;
    stopAt(link);
    pinned = null;
    show(link.closest("li"), "now");
  });

  function focusOn(line) {
    const link = line && line.querySelector("a.no");
    if (!link) return;
    const pane = paneOf(line);
    if (!isInView(line, pane)) center(line, pane);
    link.focus({ preventScroll: true });
  }

  function step(link, by) {
    const links = linksOf(paneOf(link));
    const at = links.indexOf(link);
    const next = links[Math.max(0, Math.min(links.length - 1, at + by))];
    focusOn(next.closest("li"));
  }

  // to the partner in the next shown pane on one side; from the last one on to the first
  function across(link, by) {
    const line = link.closest("li");
    const shown = panes.filter(isShown);
    const at = shown.indexOf(paneOf(line));
    const pane = shown[(at + by + shown.length) % shown.length];
    focusOn(partnersOf(line).find((l) => paneOf(l) === pane));
  }

  main.addEventListener("keydown", (event) => {
    const link = event.target.closest("a.no");
    if (!link || event.ctrlKey || event.metaKey || event.altKey) return;
    const pane = paneOf(link);
    const moves = {
      ArrowDown: () => step(link, 1),
      ArrowUp: () => step(link, -1),
      j: () => step(link, 1),
      k: () => step(link, -1),
      PageDown: () => step(link, 20),
      PageUp: () => step(link, -20),
      Home: () => focusOn(linksOf(pane)[0].closest("li")),
      End: () => focusOn(linksOf(pane).at(-1).closest("li")),
      ArrowRight: () => across(link, 1),
      ArrowLeft: () => across(link, -1),
      Enter: () => across(link, 1),
      t: () => toggle(link.closest("li")),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    pinned = null;
    show(null);
  });

  // the choices above the panes
  function choose() {
    const isOn = (id) => document.getElementById(id)?.checked;
    document.body.classList.toggle("no-remarks", isOn("remarks") === false);
    document.body.classList.toggle("ticks", isOn("ticks"));
    document.body.classList.toggle("no-ticks", !isOn("ticks"));
    for (const pane of panes) {
      pane.classList.toggle("put-away", isOn(`show-${pane.id}`) === false);
    }
  }
  document.querySelector("header").addEventListener("change", choose);
  choose();

  // ticks, which stay in a copy of the page or in a list
  const boxes = [...main.querySelectorAll(".tick")];
  const blocks = new Map();
  for (const line of main.querySelectorAll("li[data-b]")) {
    if (!blocks.has(line.dataset.b)) blocks.set(line.dataset.b, []);
    blocks.get(line.dataset.b).push(line);
  }

  function count() {
    const done = boxes.filter((box) => box.checked).length;
    const shown = document.getElementById("count");
    if (shown) shown.textContent = `${done} of ${boxes.length} reviewed`;
  }

  function tick(box) {
    box.toggleAttribute("checked", box.checked);
    for (const line of blocks.get(box.closest("li").dataset.b)) {
      line.classList.toggle("done", box.checked);
    }
    count();
  }

  function toggle(line) {
    const box = boxes.find((b) => b.closest("li").dataset.b === line.dataset.b);
    if (!box || !document.getElementById("ticks").checked) return;
    box.checked = !box.checked;
    tick(box);
  }

  main.addEventListener("change", (event) => {
    if (event.target.matches(".tick")) tick(event.target);
  });

  function download(name, text, kind) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: kind }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function copyOfPage() {
    clear();
    const copy = document.documentElement.cloneNode(true);
    copy.querySelector("#status").textContent = "";
    copy.querySelector("body").removeAttribute("class");
    for (const pane of copy.querySelectorAll(".put-away")) pane.classList.remove("put-away");
    for (const link of copy.querySelectorAll("a.no")) link.removeAttribute("tabindex");
    for (const hidden of copy.querySelectorAll("[data-script]")) hidden.hidden = true;
    for (const name of ["ticks", "remarks"]) {
      const box = document.getElementById(name);
      if (box) copy.querySelector(`#${name}`).toggleAttribute("checked", box.checked);
    }
    return `<!DOCTYPE html>\n${copy.outerHTML}\n`;
  }

  function listOfTicks() {
    const done = boxes.filter((box) => box.checked);
    const head = "# Statements that a person has reviewed; `calque show --html --against` reads them.";
    return [head, ...done.map((box) => `${box.dataset.k}  ${box.dataset.t}`), ""].join("\n");
  }

  const name = document.body.dataset.name;
  const buttons = {
    copy: () => download(`${name}.html`, copyOfPage(), "text/html"),
    list: () => download(`${name}.reviewed`, listOfTicks(), "text/plain"),
  };
  for (const [id, act] of Object.entries(buttons)) {
    document.getElementById(id)?.addEventListener("click", act);
  }
  for (const hidden of document.querySelectorAll("[data-script]")) hidden.hidden = false;
  boxes.filter((box) => box.checked).forEach(tick);
  count();
  const linked = location.hash && document.getElementById(location.hash.slice(1));
  if (linked && lineAt(linked)) pin(linked);
  const changed = main.querySelector(".added, .removed");
  if (changed && !linked && !isInView(changed, paneOf(changed))) center(changed, paneOf(changed));
})();
