"use strict";
// Unpacks plotly, draws every plot in the page's colours, and follows the switches.
(function () {
  const read = (text) => JSON.parse(text);
  const theme = read(document.getElementById("page-theme").textContent);
  const packed = document.getElementById("library");
  const darkPage = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 40rem)");
  const touch = window.matchMedia("(pointer: coarse)");
  const reduced = window.matchMedia("(prefers-reduced-motion: reduce)");
  const root = document.documentElement;
  let printing = false;

  const isDark = () => darkPage.matches && !printing;

  // The colours of the light page, and in their place those of the dark one.
  function coloured(value) {
    if (typeof value === "string") return (isDark() && theme[value]) || value;
    if (Array.isArray(value)) return value.map(coloured);
    if (value && typeof value === "object" && !ArrayBuffer.isView(value) && !("bdata" in value)) {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, coloured(one)]));
    }
    return value;
  }

  const plots = [...document.querySelectorAll("script.plot-data")].map((script) => ({
    box: document.getElementById(script.dataset.plot),
    figure: read(script.textContent),
  }));
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

  function drawn(plot) {
    const { data, layout } = coloured(plot.figure);
    for (const form of [plot.box.closest("figure"), plot.box.closest(".panel")].map((part) => part.querySelector(":scope > form"))) {
      if (!form) continue;
      const off = new Set([...form.querySelectorAll("[name=shown]:not(:checked)")].map((input) => input.value));
      for (const trace of data) if (off.has(trace.name)) trace.visible = false;
    }
    if (touch.matches || narrow.matches) layout.dragmode = false; // a finger that moves the page does not zoom
    layout.transition = reduced.matches ? undefined : layout.transition;
    return Plotly.react(plot.box, data, layout, config).then(() => {  // its label says what it shows; its buttons stay
      for (const svg of plot.box.querySelectorAll(".main-svg")) svg.setAttribute("aria-hidden", "true");
    });
  }

  function swatches() {
    for (const mark of document.querySelectorAll(".swatch")) mark.style.background = coloured(mark.dataset.colour);
  }

  const redraw = () => { swatches(); return Promise.all(plots.map(drawn)); };

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function start() {
    swatches();
    if (packed) {
      const script = document.createElement("script");
      script.textContent = await unpack(packed.textContent.trim());
      document.head.append(script);
      for (const plot of plots) {
        await drawn(plot);
        await new Promise((done) => setTimeout(done)); // the page stays alive in between
      }
    }
    root.dataset.plots = "drawn";
  }

  for (const form of document.querySelectorAll("form.controls")) {
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", () => plots.filter((plot) => form.parentElement.contains(plot.box)).forEach(drawn));
  }
  // What lies in a folded part has no width until it is opened.
  for (const fold of document.querySelectorAll("details")) {
    fold.addEventListener("toggle", () => {
      for (const plot of plots) if (fold.open && fold.contains(plot.box) && window.Plotly) Plotly.Plots.resize(plot.box);
    });
  }
  darkPage.addEventListener("change", () => window.Plotly && redraw());
  // On paper everything is unfolded, and plots are dark on light.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    printing = true;
    unfolded = [...document.querySelectorAll("details:not([open])")];
    for (const fold of unfolded) fold.open = true;
    if (window.Plotly) redraw();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    for (const fold of unfolded) fold.open = false;
    if (window.Plotly) redraw();
  });
  start().catch(() => {
    document.getElementById("no-plots").hidden = false;
    root.dataset.plots = "failed";
  });
})();
