// The script of the panel frame in VS Code: its style sheet is made here, because nothing can be loaded.
import './frame';

declare global {
  interface Window {
    conductorStyle?: string;
  }
}

const sheet = new CSSStyleSheet();
sheet.replaceSync(window.conductorStyle ?? '');
document.adoptedStyleSheets = [sheet];
delete window.conductorStyle;
