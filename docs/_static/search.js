/* The search of names. The index, searchnames.js, says what names mean, what is compared with, and in which order
   matches of one quality come (docs/search_index.py); here are the qualities, and the list below a search field. */
"use strict";

const NameSearch = (() => {
  const SHOWN = 10; // hits in the list
  const FEW = 3; // hits below which names that are spelt nearly so are looked for
  let index = null;
  const waiting = [];

  // ---- what matches

  const wordsOf = text => text.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const tidy = text => text.trim().replace(/\s+/g, " ");
  const spelled = name => index.spelled.reduce((text, [pattern, ours]) => text.replace(pattern, ours), name);
  const bare = name => name.replace(index.bare, "").replace(/=$/, "").toLowerCase();
  const asked = query => query.replace(/[? ]+$/, "").split(" ").filter(w => !index.fillers.has(w.toLowerCase())).join(" ");

  function setIndex(data) {
    const entry = (kind, text, pages, name) => ({kind, text, pages, name, words: new Set(wordsOf(text))});
    index = {
      ...data,
      spelled: data.spelled.map(([pattern, ours]) => [new RegExp(pattern), ours]),
      bare: new RegExp(data.bare),
      fillers: new Set(data.fillers),
      means: new Map(data.names.map(([name, ...pages]) => [name, pages])),
    };
    index.entries = [
      ...data.names.map(([name, ...pages]) => entry(0, bare(name), pages, name)),
      ...data.texts.map(([kind, text, ...pages]) => entry(kind, text, pages, data.kinds[kind] === "argument" ? `${text}=` : "")),
    ];
    waiting.splice(0).forEach(then => then());
  }

  // 0 exactly, 1 by all of its words, 2 by how it begins, 3 by a part; null for no match.
  function quality(wanted, words, entry) {
    if (entry.text === wanted) return 0;
    if (words.length && words.every(w => entry.words.has(w))) return 1;
    if (index.whole.includes(entry.kind) || wanted.length < 3) return null;
    if (entry.text.startsWith(wanted)) return 2;
    return entry.text.includes(wanted) ? 3 : null;
  }

  // Letters, and pairs of them, with how often each occurs.
  function pieces(text) {
    const counts = new Map(), bounded = `^${text}$`;
    const add = piece => counts.set(piece, (counts.get(piece) || 0) + 1);
    for (const letter of text) add(letter);
    for (let k = 0; k < bounded.length - 1; k++) add(bounded.slice(k, k + 2));
    return counts;
  }
  const total = counts => [...counts.values()].reduce((a, b) => a + b, 0);

  // Names that are spelt nearly so, by the share of their letters and pairs that both have.
  function nearly(wanted) {
    const last = text => text.slice(text.lastIndexOf(".") + 1);
    const mine = pieces(last(wanted)), all = total(mine), length = last(wanted).length;
    const found = [];
    index.entries.forEach((entry, k) => {
      const theirs = last(entry.text);
      if (!entry.name || Math.abs(theirs.length - length) > 1 + length / 3) return;
      const others = pieces(theirs), most = Math.max(all, total(others));
      let common = 0;
      for (const [piece, n] of mine) common += Math.min(n, others.get(piece) || 0);
      if (2 * common >= most) found.push([-common / (all + total(others)), k, entry]);
    });
    return found.sort((a, b) => a[0] - b[0] || a[1] - b[1]).slice(0, FEW).map(([, , entry]) => entry);
  }

  /* What answers a query, best first: {url, title, summary, name, kind}, where name is what matched. What a name means comes
     first, then matches by their quality, and of one quality as the index has them. */
  function search(query, n = SHOWN) {
    const name = tidy(query);
    if (!name) return [];
    const hits = new Map();
    const take = (pages, name, kind) => {
      for (const page of pages) {
        const [url, title, summary] = index.pages[page];
        if (!hits.has(url)) hits.set(url, {url, title, summary, name, kind: index.kinds[kind]});
      }
    };
    for (const text of [name, spelled(name), asked(name), spelled(asked(name))]) take(index.means.get(text) || [], text, 0);
    const wanted = bare(spelled(name)), words = wordsOf(wanted);
    const found = [];
    index.entries.forEach((entry, k) => {
      const q = quality(wanted, words, entry);
      if (q !== null) found.push([q, k, entry]);
    });
    found.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    for (const [, , entry] of found) take(entry.pages, entry.name, entry.kind);
    if (hits.size < Math.min(FEW, n) && !wanted.includes(" ")) for (const entry of nearly(wanted)) take(entry.pages, entry.name, entry.kind);
    return [...hits.values()].slice(0, n);
  }

  // ---- what is seen

  const root = () => document.documentElement.dataset.content_root || "";

  // Call a function once the index is there, which is loaded when it is first wanted.
  function ready(then) {
    if (index) return then();
    if (waiting.push(then) === 1) {
      const script = document.createElement("script");
      script.src = root() + "searchnames.js";
      document.head.append(script);
    }
  }

  function element(tag, className, ...children) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...children);
    return made;
  }

  function item(hit) {
    const isName = ["name", "argument", "description"].includes(hit.kind);
    const link = element("a", "", element("span", `name-hit-title${isName ? " is-name" : ""}`, hit.title));
    link.href = root() + hit.url;
    if (hit.name && hit.name !== hit.title) link.append(" ", element("span", "name-hit-for", hit.name));
    return element("li", "", link, element("div", "name-hit-summary", hit.summary));
  }

  // Put a list below a search form: it follows what is typed, and the arrow keys go through it.
  function attach(form) {
    const input = form.querySelector("input[name=q]");
    const list = element("ol", "name-hits"), said = element("p", "name-hits-count");
    said.setAttribute("role", "status");
    list.setAttribute("aria-label", "names and differences");
    form.after(said, list);
    const show = () => ready(() => {
      const hits = search(input.value);
      list.replaceChildren(...hits.map(item));
      const counted = `${hits.length === SHOWN ? "The first " : ""}${hits.length} by name`;
      said.textContent = hits.length ? counted : input.value.trim() && "No name is like this.";
    });
    const move = event => {
      const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
      const stops = [input, ...list.querySelectorAll("a")], at = stops.indexOf(document.activeElement);
      if (!step || at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      stops[Math.min(Math.max(at + step, 0), stops.length - 1)].focus();
    };
    input.addEventListener("input", show);
    input.addEventListener("keydown", move);
    list.addEventListener("keydown", move);
    list.addEventListener("keydown", event => event.key === "Escape" && form.closest("dialog")?.close());
    const given = new URLSearchParams(location.search).get("q");
    if (given && !form.closest("dialog")) {
      input.value = given;
      show();
    }
  }

  if (typeof document !== "undefined")
    addEventListener("DOMContentLoaded", () => document.querySelectorAll("form.bd-search").forEach(attach));

  return {setIndex, search, ready};
})();
