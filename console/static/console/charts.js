// Draws `<canvas data-chart="ID">` from the JSON in the element of that id, in the page's colours.
(function () {
  "use strict";

  var drawn = [];
  var formats = {
    usd: function (value) { return "$" + value.toLocaleString(undefined, { maximumSignificantDigits: 4 }); },
    count: function (value) { return value.toLocaleString(); },
    ms: function (value) { return value < 1000 ? Math.round(value) + " ms" : (value / 1000).toPrecision(3) + " s"; },
    percent: function (value) { return +value.toFixed(2) + " %"; },
  };

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // Days are the books' own, in UTC; hours are the viewer's.
  function label(data, iso) {
    var moment = new Date(iso);
    var hours = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    if (data.by_hour && data.needs_date) return moment.toLocaleString(undefined, Object.assign({ month: "short", day: "numeric" }, hours));
    if (data.by_hour) return moment.toLocaleTimeString(undefined, hours);
    return moment.toLocaleDateString(undefined, { month: "short", day: "numeric", timeZone: "UTC" });
  }

  // A value between two gaps is on no line.
  function pointRadius(point) {
    var values = point.dataset.data, at = point.dataIndex;
    return values[at - 1] == null && values[at + 1] == null ? 4 : 0;
  }

  function draw(canvas) {
    var data = JSON.parse(document.getElementById(canvas.dataset.chart).textContent);
    var format = formats[data.unit];
    var colors = data.series.map(function (series) { return color("--bar-" + series.tone); });
    var soft = color("--soft"), line = color("--line");
    return new Chart(canvas, {
      type: data.kind,
      data: {
        labels: data.moments.map(function (iso) { return label(data, iso); }),
        datasets: data.series.map(function (series, at) {
          return {
            label: series.label, data: series.values, backgroundColor: colors[at], borderColor: colors[at],
            borderWidth: data.kind === "line" ? 2 : 0, borderRadius: 3, pointRadius: pointRadius, pointHitRadius: 12, tension: 0.25,
            maxBarThickness: 34,
          };
        }),
      },
      options: {
        animation: false, maintainAspectRatio: false, interaction: { mode: "index", intersect: false },
        plugins: {
          legend: { display: data.series.length > 1, labels: { color: soft, boxWidth: 10 } },
          tooltip: { callbacks: { label: function (item) { return " " + item.dataset.label + ": " + format(item.parsed.y); } } },
        },
        scales: {
          x: { grid: { display: false }, ticks: { color: soft, maxRotation: 0, autoSkipPadding: 14 }, border: { color: line } },
          y: { beginAtZero: true, suggestedMax: data.unit === "percent" ? 100 : undefined, grid: { color: line }, border: { display: false }, ticks: { color: soft, maxTicksLimit: 5, precision: data.unit === "count" ? 0 : undefined, callback: format } },
        },
      },
    });
  }

  function drawAll() {
    drawn.forEach(function (chart) { chart.destroy(); });
    drawn = Array.from(document.querySelectorAll("canvas[data-chart]")).map(draw);
  }

  document.addEventListener("themechange", drawAll);
  drawAll();
})();
