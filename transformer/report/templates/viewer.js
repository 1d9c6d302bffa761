// The attention viewer: words left and right, between them a line for each weight. Each head has a colour. The viewer
// opens with the alignment of a translation: the mean of all heads of a high layer of the decoder.
"use strict";
const viewer = (() => {
  const SIDES = { encoder: ["source", "source"], decoder: ["target", "shifted"], cross: ["target", "source"] };
  const COLORS = JSON.parse(document.getElementById("colors").textContent);
  const ROW = 30; // pixels, as in the style sheet
  const FAINT = 0.02; // lighter lines are not drawn
  const NAMED = 4; // words in the summary

  const part = (id) => document.getElementById(id);
  const color = (head) => COLORS[head % COLORS.length];
  const columns = [part("queries"), part("keys")];
  let data; // as attention.json has it; with a `unit`, weights are whole numbers of 1 / unit
  let held = null; // the word that is chosen, as [column, place]
  let pointed = null; // the word under the pointer or the focus

  function make(tag, properties, parent) {
    const element = Object.assign(document.createElement(tag), properties);
    parent.append(element);
    return element;
  }

  const sentence = () => data.sentences[part("sentence").value];
  const weights = () => sentence()[part("kind").value][part("layer").value]; // [head][query][key]
  const words = (column) => sentence()[SIDES[part("kind").value][column]];
  const boxes = () => [...part("heads").querySelectorAll("input")];
  const heads = () =>
    boxes().filter((box) => box.checked || part("mean").checked).map((box) => Number(box.value));

  function weight(head, column, place, other) {
    const [query, key] = column === 0 ? [place, other] : [other, place];
    return weights()[head][query][key] / (data.unit ?? 1);
  }

  // Mean weight over the chosen heads between a word and each of the other column.
  function means([column, place]) {
    const chosen = heads();
    return words(1 - column).map(
      (_, other) => chosen.reduce((sum, head) => sum + weight(head, column, place, other), 0) / (chosen.length || 1),
    );
  }

  function summary(word) {
    const chosen = heads();
    if (!chosen.length) return "No head is chosen.";
    const among = chosen.length === 1 ? `head ${chosen[0] + 1}` : `mean of ${chosen.length} heads`;
    const where = `layer ${Number(part("layer").value) + 1}, ${among}`;
    if (!word) return `All words: ${where}.`;
    const [column, place] = word;
    const others = words(1 - column);
    const best = means(word)
      .map((mean, other) => [mean, others[other]])
      .sort((one, another) => another[0] - one[0])
      .slice(0, NAMED)
      .map(([mean, text]) => `${text} ${mean.toFixed(2)}`);
    const verb = column === 0 ? "attends to" : "is attended to by";
    return `${words(column)[place]} ${verb} ${best.join(", ")} (${where}).`;
  }

  // Where a line ends, in rows: lines of several heads to one word lie side by side.
  function end(key, number, count) {
    return key + 0.5 + 0.7 * ((number + 0.5) / count - 0.5);
  }

  function lines(word) {
    const marks = [];
    const [queries, keys] = [words(0), words(1)];
    const chosen = part("mean").checked ? [null] : heads(); // null: the mean
    for (let query = 0; query < queries.length; query++) {
      const averages = part("mean").checked && means([0, query]);
      chosen.forEach((head, number) => {
        for (let key = 0; key < keys.length; key++) {
          const value = averages ? averages[key] : weight(head, 0, query, key);
          const hidden = word && word[1] !== (word[0] === 0 ? query : key);
          if (value < FAINT || hidden) continue;
          const ends = `M0 ${(query + 0.5) * ROW} L100 ${end(key, number, chosen.length) * ROW}`;
          marks.push(`<path d="${ends}" stroke="${averages ? "#000" : color(head)}" stroke-opacity="${value}"/>`);
        }
      });
    }
    const height = Math.max(queries.length, keys.length) * ROW;
    part("lines").setAttribute("viewBox", `0 0 100 ${height}`);
    part("lines").style.height = `${height}px`;
    part("lines").innerHTML = marks.join("");
  }

  function draw() {
    const word = pointed || held;
    lines(word);
    const shares = word && means(word);
    columns.forEach((column, number) =>
      [...column.children].forEach((button, place) => {
        const own = word && word[0] === number && word[1] === place;
        const share = word && word[0] !== number ? shares[place] : 0;
        button.style.setProperty("--share", own ? 1 : share);
        button.setAttribute("aria-pressed", Boolean(held && held[0] === number && held[1] === place));
      }),
    );
    const text = summary(word);
    if (part("told").textContent !== text) part("told").textContent = text; // screen readers read each change
  }

  function point(word) {
    pointed = word;
    draw();
  }

  function hold(word) {
    held = held && String(held) === String(word) ? null : word;
    if (!held) pointed = null;
    draw();
  }

  // One word of each column is in the tab order; arrows move on from there.
  function focus(column, place) {
    const buttons = columns[column].children;
    const target = buttons[Math.max(0, Math.min(place, buttons.length - 1))];
    for (const button of buttons) button.tabIndex = button === target ? 0 : -1;
    target.focus();
  }

  function key(event, [column, place]) {
    const moves = {
      ArrowUp: [column, place - 1],
      ArrowDown: [column, place + 1],
      ArrowLeft: [0, place],
      ArrowRight: [1, place],
      Home: [column, 0],
      End: [column, Infinity],
    };
    if (event.key === "Escape") {
      held = null;
      point(null);
    } else if (event.key in moves) {
      event.preventDefault();
      focus(...moves[event.key]);
    }
  }

  function fill() {
    held = pointed = null;
    columns.forEach((column, number) => {
      column.replaceChildren();
      words(number).forEach((token, place) => {
        const word = [number, place];
        const button = make("button", { type: "button", textContent: token }, column);
        button.tabIndex = place ? -1 : 0;
        button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && point(word));
        button.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(null));
        button.addEventListener("focus", () => button.matches(":focus-visible") && point(word));
        button.addEventListener("blur", () => point(null));
        button.addEventListener("click", () => hold(word));
        button.addEventListener("keydown", (event) => key(event, word));
      });
    });
    draw();
  }

  // Layers and heads, which all sentences of a model have alike.
  function offer() {
    for (let layer = 0; layer < data.layers; layer++)
      make("option", { value: layer, textContent: layer + 1 }, part("layer"));
    part("layer").value = Math.floor((5 * data.layers) / 6 + 0.5) - 1; // as in Figure 5
    for (let head = 0; head < data.heads; head++) {
      const label = make("label", {}, part("heads"));
      make("input", { type: "checkbox", value: head }, label).addEventListener("change", () => {
        part("mean").checked = false;
        draw();
      });
      label.style.setProperty("--head", color(head));
      make("span", { textContent: head + 1 }, label);
    }
  }

  // Show these sentences in place of those before; kind, layer and heads stay as they were chosen.
  function show(attention) {
    data = attention;
    if (!part("layer").length) offer();
    part("sentence").replaceChildren();
    data.sentences.forEach((one, number) =>
      make("option", { value: number, textContent: one.title }, part("sentence")),
    );
    part("sentence").closest("label").hidden = data.sentences.length === 1;
    part("viewer").hidden = false;
    fill();
  }

  for (const id of ["sentence", "kind"]) part(id).addEventListener("change", fill);
  part("layer").addEventListener("change", draw);
  part("mean").addEventListener("change", () => {
    for (const box of boxes()) box.checked = false;
    draw();
  });
  return { show };
})();
