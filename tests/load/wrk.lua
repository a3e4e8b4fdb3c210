-- POST LOAD_BODY with the key LOAD_KEY and the lines of LOAD_HEADERS again and again; at the end,
-- one line of JSON.
wrk.method = "POST"
wrk.body = os.getenv("LOAD_BODY")
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("LOAD_KEY")
for name, value in os.getenv("LOAD_HEADERS"):gmatch("([^:\n]+): ([^\n]*)\n") do
  wrk.headers[name] = value
end

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f, "failed": %d}\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, failed))
end
