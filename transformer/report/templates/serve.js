// Requests the translation of the typed text, and shows the newest answer. Texts are never inserted as HTML.
(() => {
  const WAIT = 150; // milliseconds without a key before the server is asked
  const GONE = "The server does not answer. If it has stopped, restart it and continue typing.";
  const settings = JSON.parse(document.getElementById("settings").textContent);
  const part = (id) => document.getElementById(id);
  let newest = new AbortController(); // of the newest question; those before are given up
  let timer;

  function row({ text, score }) {
    const cells = document.createElement("tr");
    const word = Object.assign(cells.insertCell(), { textContent: text, className: "word", lang: settings.target });
    word.dir = "auto";
    cells.insertCell().textContent = score.toFixed(3).replace("-", "\u2212");
    return cells;
  }

  function show({ translations, attention }) {
    part("problem").textContent = "";
    part("translation").removeAttribute("aria-busy");
    part("translation").textContent = translations[0].text;
    part("best").replaceChildren(...translations.map(row));
    part("ranking").hidden = part("attention").hidden = false;
    viewer.show(attention);
  }

  // Nothing that belongs to another text stays on the page.
  function clear(problem) {
    part("problem").textContent = problem;
    part("translation").removeAttribute("aria-busy");
    part("translation").textContent = "";
    part("ranking").hidden = part("attention").hidden = true;
  }

  async function answer(body, signal) {
    const response = await fetch("translate", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body,
      signal,
    });
    return response.json();
  }

  async function ask() {
    newest.abort();
    const own = (newest = new AbortController());
    const text = part("text").value;
    const body = new Blob([JSON.stringify({ text, attention: true })]);
    if (!text.trim()) return clear("");
    if (body.size > settings.bytes) return clear(`This text is too long: ${body.size} bytes, the maximum is ${settings.bytes}.`);
    part("translation").setAttribute("aria-busy", "true");
    const found = await answer(body, own.signal).catch(() => ({ error: GONE }));
    if (own.signal.aborted) return;
    if (found.error) clear(found.error);
    else show(found);
  }

  // The English name of a language code such as de or pt_BR, or the code itself if it has no name.
  function language(code) {
    try {
      return new Intl.DisplayNames("en", { type: "language" }).of(code.replaceAll("_", "-"));
    } catch {
      return code;
    }
  }

  // What the viewer shows now, words and lines, as a file.
  function save() {
    const [row, side, gap] = [30, 160, 240]; // pixels: the viewer's ROW, the words of one side, the lines
    const lines = part("lines").cloneNode(true);
    const height = lines.viewBox.baseVal.height;
    const make = (name, attributes, parent) => {
      const element = parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", name));
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      return element;
    };
    const look = { xmlns: "http://www.w3.org/2000/svg", "font-family": "sans-serif", "font-size": 15, "stroke-width": 2.5 };
    const picture = make("svg", { ...look, width: 2 * side + gap, height }, document.createDocumentFragment());
    make("rect", { width: "100%", height: "100%", fill: "#fff" }, picture);
    for (const [id, x, anchor] of [["queries", side - 8, "end"], ["keys", side + gap + 8, "start"]])
      [...part(id).children].forEach((word, place) => {
        make("text", { x, y: (place + 0.67) * row, "text-anchor": anchor }, picture).textContent = word.textContent;
      });
    for (const [key, value] of [["x", side], ["width", gap], ["height", height], ["fill", "none"]]) lines.setAttribute(key, value);
    lines.removeAttribute("style");
    for (const line of lines.children) line.setAttribute("vector-effect", "non-scaling-stroke");
    picture.append(lines);
    const file = new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" });
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: "attention.svg" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  for (const name of document.querySelectorAll(".language")) name.textContent = language(name.textContent);
  part("save").addEventListener("click", save);
  part("text").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT);
  });
  if (part("text").value) ask(); // an example, or what a browser restores
})();
