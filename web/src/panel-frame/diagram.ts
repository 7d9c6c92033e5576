// The script of the diagram frame. It gets texts of diagrams and answers with drawings. It never gets HTML.
import { refusal } from './kinds';

interface Draw {
  id: number;
  text: string;
  vars: Record<string, string>;
}

addEventListener('message', function begin(event: MessageEvent) {
  const port = event.ports[0];
  if (event.source !== parent || (event.data as { kind?: unknown } | null)?.kind !== 'init' || !port) return;
  removeEventListener('message', begin);
  let last = Promise.resolve();
  port.onmessage = (asked: MessageEvent<Draw>) => {
    // One after the other: mermaid has one configuration.
    last = last.then(() => draw(asked.data)).then((drawn) => port.postMessage({ id: asked.data.id, ...drawn }));
  };
  port.postMessage({ id: 0 });
});

async function draw({ id, text, vars }: Draw): Promise<object> {
  const mermaid = window.conductorMermaid;
  if (!mermaid) return { problem: 'The diagram library is missing.' };
  const refused = refusal(text);
  if (refused) return { problem: refused };
  try {
    mermaid.initialize(settings(vars));
    const { svg } = await mermaid.render(`diagram-${id}`, text);
    return asImage(svg);
  } catch (error) {
    const reason = String(error instanceof Error ? error.message : error).split('\n')[0]?.slice(0, 200) ?? '';
    return { problem: `The diagram cannot be drawn: ${reason}` };
  } finally {
    document.body.replaceChildren();
  }
}

/** As XML with a size of its own, which an image needs. */
function asImage(svg: string): object {
  const place = document.createElement('div');
  document.body.append(place);
  place.innerHTML = svg;
  const root = place.querySelector('svg');
  const box = root?.viewBox.baseVal;
  if (!root || !box || !(box.width > 0) || !(box.height > 0)) return { problem: 'The diagram is empty.' };
  root.setAttribute('width', String(box.width));
  root.setAttribute('height', String(box.height));
  root.style.maxWidth = '';
  return { svg: new XMLSerializer().serializeToString(root), width: box.width, height: box.height };
}

function settings(vars: Record<string, string>): object {
  const colour = (name: string, other: string) => vars[`--${name}`] || other;
  const [bg, bg2, bg3] = [colour('bg', '#ffffff'), colour('bg-2', '#f5f6f8'), colour('bg-3', '#e9ebef')];
  const [text, text2] = [colour('text', '#1b1f27'), colour('text-2', '#535b69')];
  const [line, accent] = [colour('ctl', '#7b8494'), colour('accent', '#0b5cad')];
  const font = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";
  return {
    startOnLoad: false, securityLevel: 'strict', htmlLabels: false, layout: 'dagre', look: 'classic',
    flowchart: { htmlLabels: false, useMaxWidth: false, layout: 'dagre' },
    sequence: { useMaxWidth: false }, er: { useMaxWidth: false, layout: 'dagre' },
    gantt: { useMaxWidth: false, useWidth: 640 },
    class: { useMaxWidth: false, htmlLabels: false, layout: 'dagre' }, state: { useMaxWidth: false, layout: 'dagre' },
    suppressErrorRendering: true, maxTextSize: 20_000, maxEdges: 300, fontFamily: font, theme: 'base',
    themeVariables: {
      darkMode: vars['scheme'] === 'dark', background: bg, fontFamily: font, fontSize: '14px',
      primaryColor: bg3, primaryTextColor: text, primaryBorderColor: line, secondaryColor: bg2, tertiaryColor: bg2,
      secondaryBorderColor: line, tertiaryBorderColor: line, secondaryTextColor: text, tertiaryTextColor: text,
      lineColor: text2, textColor: text, mainBkg: bg3, nodeBorder: line, clusterBkg: bg2, clusterBorder: line,
      edgeLabelBackground: bg, titleColor: text, actorBkg: bg3, actorBorder: line, actorTextColor: text,
      actorLineColor: line,
      signalColor: text2, signalTextColor: text, labelBoxBkgColor: bg3, labelBoxBorderColor: line, labelTextColor: text,
      loopTextColor: text, noteBkgColor: colour('warn-bg', '#fdf0d9'), noteTextColor: text, noteBorderColor: line,
      activationBkgColor: bg2, activationBorderColor: line, sequenceNumberColor: bg, gridColor: line,
      todayLineColor: accent,
      sectionBkgColor: bg2, altSectionBkgColor: bg, sectionBkgColor2: bg3, taskBkgColor: bg3, taskBorderColor: accent,
      taskTextColor: text, taskTextDarkColor: text, taskTextLightColor: text, taskTextOutsideColor: text,
      activeTaskBkgColor: bg2,
      activeTaskBorderColor: accent, doneTaskBkgColor: bg2, doneTaskBorderColor: line,
      critBkgColor: colour('del-bg', '#fbe3e1'),
      critBorderColor: colour('err', '#b3261e'), attributeBackgroundColorOdd: bg, attributeBackgroundColorEven: bg2,
    },
  };
}
