// The settings of a session that the agent offers: modes, models and other options.
import { at, list, text } from './json';
import type { Select } from './link/types';
import { oneLine } from './printable';

/** How a setting is changed: by `session/set_mode`, `session/set_model` or `session/set_config_option`. */
export type SettingKind = 'mode' | 'model' | 'option';

export interface Setting {
  kind: SettingKind;
  /** The id of the option. */
  id: string;
  name: string;
  /** `mode`, `model` or another category. */
  category: string;
  current: unknown;
  values: Array<{ value: unknown; name: string; about: string }>;
}

const line = (value: unknown): string => oneLine(text(value) ?? '');

/** The settings in the answer to `session/new`, `session/load` or `session/resume`. */
export function settingsOf(answer: unknown): Setting[] {
  const settings = optionsOf(at(answer, 'configOptions'));
  const older = [
    ['mode', at(answer, 'modes'), 'currentModeId', 'availableModes', 'id'],
    ['model', at(answer, 'models'), 'currentModelId', 'availableModels', 'modelId'],
  ] as const;
  for (const [kind, state, current, available, id] of older) {
    const values = list(at(state, available)).map((it) => ({
      value: at(it, id) ?? null, name: line(at(it, 'name')), about: line(at(it, 'description')),
    }));
    // A config option replaces the older form.
    if (values.length === 0 || settings.some((it) => it.category === kind)) continue;
    settings.push({ kind, id: kind, name: kind, category: kind, current: at(state, current) ?? null, values });
  }
  return settings;
}

/** The settings in a list of config options. */
export function optionsOf(options: unknown): Setting[] {
  return list(options).flatMap((option) => {
    // Version 1 and version 2.
    const id = text(at(option, 'id')) ?? text(at(option, 'configId'));
    if (id === undefined) return [];
    return {
      kind: 'option', id, name: line(at(option, 'name')), category: line(at(option, 'category')),
      current: at(option, 'currentValue') ?? null, values: valuesOf(option),
    };
  });
}

function valuesOf(option: unknown): Setting['values'] {
  if (at(option, 'type') === 'boolean') {
    return [{ value: true, name: 'on', about: '' }, { value: false, name: 'off', about: '' }];
  }
  const values = list(at(option, 'options')).flatMap((it) => {
    // An element may be a group of options.
    const group = at(it, 'options');
    return Array.isArray(group) ? list(group) : [it];
  });
  return values.map((it) => ({
    value: at(it, 'value') ?? null, name: line(at(it, 'name')), about: line(at(it, 'description')),
  }));
}

/** The request that sets a value. */
export function settingRequest(setting: Setting, sessionId: string, value: unknown): [string, unknown] {
  switch (setting.kind) {
    case 'mode': return ['session/set_mode', { sessionId, modeId: value }];
    case 'model': return ['session/set_model', { sessionId, modelId: value }];
    case 'option': {
      const params = { sessionId, configId: setting.id, value };
      return ['session/set_config_option', typeof value === 'boolean' ? { ...params, type: 'boolean' } : params];
    }
  }
}

/** The id of a setting in a view: `mode`, `model` or `option:ID`. */
export function selectId({ kind, category, id }: Setting): string {
  if (kind !== 'option') return kind;
  return category === 'mode' || category === 'model' ? category : `option:${id}`;
}

/** The id of a value of a setting in a view. */
export function valueId(value: unknown): string {
  return text(value) ?? JSON.stringify(value ?? null);
}

/** A setting as a view shows it. */
export function selectOf(setting: Setting): Select {
  const names: Record<string, string> = { '': setting.id, mode: 'Mode', model: 'Model' };
  return {
    id: selectId(setting),
    name: Object.hasOwn(names, setting.name) ? (names[setting.name] ?? setting.name) : setting.name,
    current: valueId(setting.current),
    values: setting.values.map(({ value, name, about }) => ({ id: valueId(value), name: name || valueId(value), about })),
  };
}
